"""What can be changed by a filter: schedules, tasks and workflows, each kind in a file of its own."""
