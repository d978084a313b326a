"""A project whose campaigns are components."""
