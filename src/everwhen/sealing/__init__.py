"""Sealing: what tenants entrust to the server is of no use to whoever has the database only."""
