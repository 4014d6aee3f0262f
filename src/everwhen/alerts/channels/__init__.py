"""Where alerts go: one folder a kind of channel, each of the same shape."""
