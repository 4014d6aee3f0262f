"""A channel that posts to an incoming webhook of Slack, or of what speaks like it."""
