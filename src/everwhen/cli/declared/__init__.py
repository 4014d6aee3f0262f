"""Files that declare what a tenant has: reading, writing, and what they come to."""
