"""The documentation, and the code that makes the pages which only repeat what the code says."""
