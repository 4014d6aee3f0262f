"""The cost of a list by a tag: a page walks along the key, however many things, tags and other pages there are."""

from everwhen.schedules import store as schedules
from everwhen.tags import store as tags
from everwhen.tasks import store as tasks
from everwhen.workflows.catalogue import store as workflows
from tests.contracts.test_plans import DEFINE, TENANT, Watched, run_as_superuser, tenant  # noqa: F401  # fixtures

FILL = """
    insert into everwhen.tasks
    select '{tenant}', 't' || n, 'line', 5, '{{}}', 60, null, now(), now() from generate_series({first}, {last}) n;
    insert into everwhen.schedules
    select '{tenant}', gen_random_uuid(), 't' || n, 'active', null, 1, 'report', '{{}}', '{{}}', null, now(), now()
    from generate_series({first}, {last}) n;
    insert into everwhen.watermarks (tenant_id, schedule_uid, decided_until, next_at)
    select tenant_id, uid, now(), now() from everwhen.schedules on conflict do nothing;
    insert into everwhen.workflows (tenant_id, name, version, created_at, updated_at)
    select '{tenant}', 't' || n, 1, now(), now() from generate_series({first}, {last}) n;
    insert into everwhen.tagged
    select '{tenant}', kind, tag, 't' || n
    from generate_series({first}, {last}) n, unnest(array['schedule', 'task', 'workflow']) kind,
         unnest(array['all', 'n' || n % 7]) tag
"""
PAGE = 20
MOST_PAGES = 12
MOST_PAGES_A_ROW = 8


async def test_a_list_by_a_tag_touches_few_pages_whatever_the_statistics_say(tenant: Watched, run_as_superuser) -> None:  # noqa: F811
    key = {"tenant_id": TENANT, "tag": "all", "after": "", "limit": PAGE}

    async def read(most: int) -> int:
        worst = 0
        for listed in (schedules.list_heads_tagged, tasks.list_tasks_tagged, workflows.list_workflows_tagged):
            pages, found = await tenant.pages(lambda each=listed: each(tenant.conn, **key))
            assert len(found) == most
            worst = max(worst, pages)
        return worst

    run_as_superuser(DEFINE)
    run_as_superuser(FILL, first=1, last=1)
    await read(1)
    run_as_superuser(FILL, first=2, last=3_000)

    assert await read(PAGE) <= MOST_PAGES + MOST_PAGES_A_ROW * PAGE


async def test_a_change_of_tags_touches_few_pages_whatever_the_statistics_say(
    tenant: Watched,  # noqa: F811
    run_as_superuser,  # noqa: F811
) -> None:
    key = {"tenant_id": TENANT, "kind": "schedule", "name": "t1"}

    async def put(before: list[str], after: list[str]) -> int:
        pages, _ = await tenant.pages(lambda: tags.put_tags(tenant.conn, **key, before=before, tags=after))
        return pages

    run_as_superuser(DEFINE)
    run_as_superuser(FILL, first=1, last=1)
    await put(["all"], ["other"])
    run_as_superuser(FILL, first=2, last=3_000)

    assert await put(["other"], ["all", "new"]) <= 40
