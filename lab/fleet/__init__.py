"""A simulated fleet whose pages hold content: who wrote each slot. What a response read is looked up there."""
