"""The audit: every change by whom, from where, before and after, in a chain that nobody can change unnoticed."""
