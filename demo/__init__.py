"""The demonstration and the embedded server that it shares with the tests. Not part of the product."""
