"""Measurements that are read by people; no gate depends on a clock."""
