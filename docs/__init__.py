"""Papers, and the generator of those that are made from the code."""
