"""What a task returns that is a branch of a workflow."""

from typing import Any


class Branch(dict[str, Any]):
    """The nodes directly downstream to take, with whatever else the result holds.

        return Branch("load", rows=12)

    The other nodes downstream are skipped; `Branch()` takes none. In a run that is no branch it is an ordinary result.
    """

    def __init__(self, *nodes: str, **data: Any) -> None:
        """Take these nodes; `data` is what references read."""
        super().__init__(data)
        self["$branch"] = list(nodes)
