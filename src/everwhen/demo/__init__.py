"""What `everwhen up` shows a newcomer: a tenant, a few schedules, a worker, and their runs as they happen."""
