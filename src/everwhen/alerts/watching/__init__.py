"""What nothing that happens would tell: runs that are late, will be, or do nothing."""
