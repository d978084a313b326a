"""The use cases in the order in which they run, one verb a module. They talk to ports only."""
