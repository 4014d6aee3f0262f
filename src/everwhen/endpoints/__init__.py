"""Endpoints: queues whose fleet is an HTTP endpoint."""
