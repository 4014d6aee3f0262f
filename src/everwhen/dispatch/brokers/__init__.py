"""Dispatch by a broker: the relay announces what waits, a consumer takes the lease. PostgreSQL decides, as ever."""
