"""Lists of workflows' runs."""
