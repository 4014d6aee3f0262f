-- name: mark_redriven
-- Take dead letters for a redrive, each at most once: what is not returned is no dead run, or was taken before. A letter
-- that somebody dismissed is taken only where it is named (`dismissed`), one that was redriven only where that is asked
-- for (`again`). Of two redrives at once the second waits here, and then takes nothing. A workflow's node is never taken:
-- its workflow would not hear of the new run. In the order of the key.
with dead as (
  select a.run_id, a.made_run_id
  from unnest(%(run_ids)s::uuid[], %(made_run_ids)s::uuid[]) as a (run_id, made_run_id)
  cross join lateral (
    select from everwhen.run_ends e
    where e.tenant_id = %(tenant_id)s and e.run_id = a.run_id and e.state = 'dead'
    offset 0) e
  cross join lateral (
    select from everwhen.runs r
    where r.tenant_id = %(tenant_id)s and r.run_id = a.run_id and r.source <> 'workflow'
    offset 0) r
  order by a.run_id
)
insert into everwhen.dead_letters as d
  (tenant_id, run_id, state, redrives, redriven_as, changed_by, reason, changed_at)
select %(tenant_id)s, run_id, 'redriven', 1, made_run_id, %(changed_by)s, %(reason)s, %(now)s from dead
on conflict (tenant_id, run_id) do update
set state = 'redriven', redrives = d.redrives + 1, redriven_as = excluded.redriven_as,
    changed_by = excluded.changed_by, reason = excluded.reason, changed_at = excluded.changed_at
where %(again)s or d.state = 'open' or (d.state = 'dismissed' and %(dismissed)s)
returning d.run_id;

-- name: find_nodes
-- Those of these runs that are nodes of workflows' runs.
select n.node_run_id as run_id, n.run_id as workflow_run_id, n.node
from everwhen.workflow_nodes n
where n.tenant_id = %(tenant_id)s and n.node_run_id = any(%(run_ids)s::uuid[]);

-- name: get_letter
select run_id, state, redrives, redriven_as, changed_by, reason, changed_at
from everwhen.dead_letters
where tenant_id = %(tenant_id)s and run_id = %(run_id)s;

-- name: set_letters
-- Dismiss letters, or open them again. Only of dead runs, and only those that are in one of the states `was`: what was
-- redriven stays so. In the order of the key.
with dead as (
  select a.run_id
  from unnest(%(run_ids)s::uuid[]) as a (run_id)
  cross join lateral (
    select from everwhen.run_ends e
    where e.tenant_id = %(tenant_id)s and e.run_id = a.run_id and e.state = 'dead'
    offset 0) e
  where 'open' = any(%(was)s::text[])
     or exists (select from everwhen.dead_letters d where d.tenant_id = %(tenant_id)s and d.run_id = a.run_id)
  order by a.run_id
)
insert into everwhen.dead_letters as d (tenant_id, run_id, state, changed_by, reason, changed_at)
select %(tenant_id)s, run_id, %(state)s, %(changed_by)s, %(reason)s, %(now)s from dead
on conflict (tenant_id, run_id) do update
set state = excluded.state, changed_by = excluded.changed_by, reason = excluded.reason, changed_at = excluded.changed_at
where d.state = any(%(was)s::text[])
returning d.run_id;

-- name: list_groups
-- Dead runs by fingerprint; '' stands for those without one. The index is skipped through, from one fingerprint to the next,
-- so a list costs its groups and not the history; what is counted in a group is bounded, from the latest run back. A group
-- without a letter in this state is told as well, so that a page looks at so many groups, not on to the end.
-- Its two columns are bounded together and both ordered by: only the index of fingerprints can serve that. OFFSET 0 keeps
-- the letter from being looked up once for each aggregate.
with recursive named as (
  select %(after)s::text as fingerprint
  union all
  select following.fingerprint
  from named n
  cross join lateral (
    select e.fingerprint
    from everwhen.run_ends e
    where e.tenant_id = %(tenant_id)s and e.state = 'dead' and e.fingerprint > n.fingerprint
    order by e.fingerprint
    limit 1) following
)
select n.fingerprint, c.letters, c.looked_at, c.first_at, c.last_at, c.latest_run_id,
       array(
         select distinct r.task
         from unnest(c.latest) l (run_id)
         cross join lateral (
           select r.task from everwhen.runs r where r.tenant_id = %(tenant_id)s and r.run_id = l.run_id offset 0) r
         order by r.task) as tasks,
       (select a.error::text
        from everwhen.attempts a
        where a.tenant_id = %(tenant_id)s and a.run_id = c.latest_run_id
        order by a.attempt desc
        limit 1) as error
from named n
cross join lateral (
  select count(*) filter (where f.is_meant) as letters, count(*) as looked_at,
         min(f.finished_at) filter (where f.is_meant) as first_at, max(f.finished_at) filter (where f.is_meant) as last_at,
         (array_agg(f.run_id order by f.run_id desc) filter (where f.is_meant))[1] as latest_run_id,
         (array_agg(f.run_id order by f.run_id desc))[:100] as latest
  from (
    select e.run_id, e.finished_at,
           %(letter)s = coalesce((
             select d.state from everwhen.dead_letters d where d.tenant_id = %(tenant_id)s and d.run_id = e.run_id),
             'open') as is_meant
    from (
      (select e.run_id, e.finished_at
       from everwhen.run_ends e
       where e.tenant_id = %(tenant_id)s and e.state = 'dead' and n.fingerprint <> ''
         and (e.fingerprint, e.run_id) >= (n.fingerprint, '00000000-0000-0000-0000-000000000000')
         and (e.fingerprint, e.run_id) <= (n.fingerprint, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       order by e.fingerprint desc, e.run_id desc
       limit %(most_counted)s)
      union all
      (select e.run_id, e.finished_at
       from everwhen.run_ends e
       where e.tenant_id = %(tenant_id)s and e.state = 'dead' and n.fingerprint = '' and e.fingerprint is null
       order by e.fingerprint desc, e.run_id desc
       limit %(most_counted)s)) e
    offset 0) f) c
where %(first)s or n.fingerprint <> %(after)s
limit %(limit)s;
