"""Test your schedules in your own suite: a real Everwhen on a real PostgreSQL, on a clock that you move.

    async with EverwhenTest(start="2027-03-27T00:00:00Z") as ew:
        await ew.apply(tasks=[{"name": "report"}], schedules=[{"name": "nightly", "task": "report", …}])
        await ew.advance_to("2027-03-30T00:00:00Z")
        await ew.assert_ran("nightly", times=3)

Nothing is imitated but the worker and the passing of time: triggers, policies, retries and reasons are the product's.
`everwhen.testing.plugin` has the fixtures for pytest; docs/guides/testing.md has examples to copy.
"""

from everwhen.testing.harness import EverwhenTest
from everwhen.testing.records import RunRecord, SpanRecord
from everwhen.testing.scripts import Claimed, Fails, Loses, Succeeds
from everwhen.testing.server import TestingServer

__all__ = ["Claimed", "EverwhenTest", "Fails", "Loses", "RunRecord", "SpanRecord", "Succeeds", "TestingServer"]
