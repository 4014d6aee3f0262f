"""The plugin's fixtures, as a team's own conftest would have them; ours may not name plugins below the root."""

from everwhen.testing.plugin import everwhen, everwhen_server

__all__ = ["everwhen", "everwhen_server"]
