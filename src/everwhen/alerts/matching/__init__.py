"""From what happened to messages that gather."""
