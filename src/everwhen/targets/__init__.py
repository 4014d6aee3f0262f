"""What schedules, workflows and runs are for: tasks, and the workflows that stand among them; and who uses one."""
