"""Traces of clients' requests: what a span is, and how spans are sent by the OpenTelemetry SDK."""
