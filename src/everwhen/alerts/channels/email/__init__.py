"""A channel that hands mails to a server: the tenant's own, or the installation's."""
