"""Egress: every connection that a tenant's words lead to, and the guard that it goes through."""
