"""Everwhen: a durable, multi-tenant scheduler on PostgreSQL.

Importing the package costs nothing: each part imports what it needs, so a worker never loads a server.
"""

__version__ = "0.1.0"
