"""The demonstration, and the servers that it shares with certification and tests. Not part of the product."""
