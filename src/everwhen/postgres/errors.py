"""What can go wrong between Everwhen and its database.

EmbeddedServerError          the embedded server cannot be set up, started or stopped
  DataDirectoryInUseError    another process runs a server on this data directory
MigrationError               the schema and this server do not fit together
UnsafeRoleError              the login could bypass the isolation of tenants
IndeterminateCommitError     nobody can say whether the transaction was committed
"""

import psycopg


class EmbeddedServerError(Exception):
    """The embedded server cannot go on; the message says why and what to do."""


class DataDirectoryInUseError(EmbeddedServerError):
    """Another living process holds this data directory."""


class MigrationError(Exception):
    """The database's schema and this version of Everwhen do not fit together."""


class UnsafeRoleError(Exception):
    """The login role is a superuser, bypasses row-level security, or cannot take the role it needs."""


class IndeterminateCommitError(psycopg.OperationalError):
    """The transaction may or may not be committed: repeat it by its idempotency key, never assume either."""
