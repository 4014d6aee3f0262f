"""What a program does with the generated Python client: `live.py URL TOKEN`. It is type-checked with it, then run."""

import sys

from everwhen_client import AuthenticatedClient
from everwhen_client.api.schedules import create_schedule, list_schedules
from everwhen_client.api.tasks import create_task, get_task, list_tasks
from everwhen_client.models import CronTrigger, Problem, ScheduleIn, ScheduleOut, TaskIn, TaskOut

TENANT = "acme"


def main(url: str, token: str) -> None:
    client = AuthenticatedClient(base_url=url, token=token)

    made = create_task.sync(TENANT, client=client, body=TaskIn(name="from-python", priority=7, tags=["from-python"]))
    assert isinstance(made, TaskOut), made
    assert (made.name, made.priority, made.revision) == ("from-python", 7, 1)

    trigger = CronTrigger(kind="cron", expr="30 2 * * *")
    body = ScheduleIn(name="from-python", task="from-python", trigger=trigger)
    scheduled = create_schedule.sync(TENANT, client=client, body=body)
    assert isinstance(scheduled, ScheduleOut), scheduled
    assert scheduled.trigger["kind"] == "cron", scheduled.trigger
    assert scheduled.next_at is not None

    tasks = list_tasks.sync(TENANT, client=client, filter_="tag:from-python")
    schedules = list_schedules.sync(TENANT, client=client)
    assert tasks is not None, "an undocumented status"
    assert not isinstance(tasks, Problem), tasks
    assert schedules is not None, "an undocumented status"
    assert not isinstance(schedules, Problem), schedules
    assert [each.name for each in tasks.items] == ["from-python"]
    assert "from-python" in [each.name for each in schedules.items]

    missing = get_task.sync_detailed(TENANT, "nowhere", client=client)
    assert isinstance(missing.parsed, Problem), missing
    assert (missing.status_code, missing.parsed.status, missing.parsed.code) == (404, 404, "task.unknown")
    again = create_task.sync(TENANT, client=client, body=TaskIn(name="from-python"))
    assert isinstance(again, Problem), again
    assert again.status == 409, again


main(*sys.argv[1:])
