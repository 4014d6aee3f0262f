-- Lists of workflows' runs. They stand among all other runs, which are many more; an index of their own holds them.

-- name: page_heads
-- The newest first. How one stands is looked up only where a filter asks, and no further than to the first answer.
select r.run_id, r.task, r.source, r.due_at,
       case when %(with_state)s then coalesce(
         (select e.state from everwhen.run_ends e where e.tenant_id = r.tenant_id and e.run_id = r.run_id),
         (select 'running' from everwhen.leases l where l.tenant_id = r.tenant_id and l.run_id = r.run_id),
         (select case when w.available_at <= %(now)s then 'waiting' when w.failures > 0 then 'retrying' else 'planned' end
          from everwhen.waiting w where w.tenant_id = r.tenant_id and w.run_id = r.run_id),
         (select case when h.due_at <= %(now)s then 'waiting' else 'planned' end
          from everwhen.held h where h.tenant_id = r.tenant_id and h.run_id = r.run_id)) end as state
from everwhen.runs r
where r.tenant_id = %(tenant_id)s and r.queue = 'everwhen:workflows' and r.run_id < %(before)s
order by r.run_id desc
limit %(limit)s;

-- name: read_begun
-- What the runs of a page are by, each by its key.
select w.run_id, w.version, w.generation, w.rerun_of, w.started_at, w.deadline_at
from unnest(%(run_ids)s::uuid[]) as p (run_id)
cross join lateral (
  select w.run_id, w.version, w.generation, w.rerun_of, w.started_at, w.deadline_at from everwhen.workflow_runs w
  where w.tenant_id = %(tenant_id)s and w.run_id = p.run_id
  offset 0) w;
