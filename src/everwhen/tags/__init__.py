"""Which schedules, tasks and workflows have a tag."""
