"""What was sent, and what would be told: lists, looks and previews."""
