"""Alerts: the right people hear of it, once, in time."""
