"""Answers as a table for people, or as JSON, CSV or NDJSON for programs: one file a form."""
