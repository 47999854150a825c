"""What runs on the GPU node: records page-ownership facts inside an engine and posts them as OpenTelemetry spans."""
