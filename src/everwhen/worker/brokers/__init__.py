"""Notices of runs by a broker: what they say, where they lie, and how a worker takes them out."""
