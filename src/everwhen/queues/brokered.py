"""A queue whose runs a broker announces: see dispatch/brokers/relay.py for what its settings do."""

from collections.abc import Mapping
from typing import Any, Final

from everwhen.errors import InvalidInput

MOST_WINDOW: Final = 10_000
_WINDOW: Final = "window"


class Brokered:
    """Delivered by a broker. `window`: of how many untaken runs it is told at most; left out: as by default."""

    def read(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take a window, and nothing else."""
        for name in settings:
            if name != _WINDOW:
                detail = f"There is no setting {name!r} here; a broker's queue has one: {_WINDOW}."
                raise InvalidInput.at("/delivery_settings", detail, code="queue.delivery_settings")
        window = settings.get(_WINDOW)
        if window is None:
            return {}
        if isinstance(window, bool) or not isinstance(window, int) or not 1 <= window <= MOST_WINDOW:
            detail = f"The window is a whole number from 1 to {MOST_WINDOW}."
            raise InvalidInput.at(f"/delivery_settings/{_WINDOW}", detail, code="queue.delivery_settings")
        return {_WINDOW: window}
