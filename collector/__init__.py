"""Takes evidence in: OTLP over HTTP, from emitters with a token, into the store."""
