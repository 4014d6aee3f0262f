"""The worker's failpoints: a run passes each of them. tests/test_failpoints.py has those of the server."""

from everwhen import failpoints
from everwhen.worker import Worker

NAMES = [name for name in failpoints.POINTS if name.startswith("worker.")]


def test_each_failpoint_of_the_worker_is_passed_once_by_a_run(fleet, start, until):
    worker = Worker()

    @worker.task("report")
    def report() -> None:
        """Nothing to do."""

    with failpoints.armed(",".join(f"{name}:sleep=0" for name in NAMES)) as traps:
        running = start(worker)
        fleet.report(fleet.add("report"))
        until(lambda: traps["worker.after_report"].passes, "the report is answered")
        running.stop()
        running.join()

    assert {name: trap.passes for name, trap in traps.items()} == dict.fromkeys(NAMES, 1)
