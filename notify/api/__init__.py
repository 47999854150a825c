"""The HTTP API that the commands ask: tenant questions and the operator's views, all behind the responder token."""
