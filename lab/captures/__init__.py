"""Recorded runs of the real engine: what the agent posted, what the client saw, and what memory really held."""
