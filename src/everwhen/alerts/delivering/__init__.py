"""From messages that are due to what became of them."""
