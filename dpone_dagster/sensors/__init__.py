"""Sensors: what Dagster starts or tells by itself. No SQL and no rules here."""
