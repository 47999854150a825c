"""`pagewitness serve`: every stage in one process. Evidence in over OTLP, detection every few seconds, answers out."""
