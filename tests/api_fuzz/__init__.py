"""Schemathesis over the whole document: cases that the schema calls right, and cases that it calls wrong."""

from typing import Final

NAMES: Final = "EVERWHEN_FUZZ_NAMES"
"""The environment variable that tells the hooks, as JSON, what exists."""

TARGETS: Final = {"/tasks": "task", "/calendars": "calendar", "/workflows": "workflow"}
"""Whose name `{name}` is, by the path; elsewhere a schedule's."""
