-- Pauses of queues and tenants. Whoever hands out runs looks here, too: see lock_limited_lanes in dispatch/queries.sql.

-- name: has_lane
-- Whether the tenant has this queue.
select exists (select from everwhen.lanes where tenant_id = %(tenant_id)s and queue = %(queue)s) as is_there;

-- name: list_lanes
-- Whom to wake when a tenant goes on.
select queue from everwhen.lanes where tenant_id = %(tenant_id)s order by queue limit %(limit)s;

-- name: insert_pause
-- One whose time has come, and whose row nobody has taken away yet, is in nobody's way. Zero rows: it is paused already.
insert into everwhen.pauses (tenant_id, queue, reason, paused_by, paused_at, paused_until)
values (%(tenant_id)s, %(queue)s, %(reason)s, %(by)s, %(now)s, %(until)s)
on conflict (tenant_id, queue) do update
set reason = excluded.reason, paused_by = excluded.paused_by, paused_at = excluded.paused_at,
    paused_until = excluded.paused_until
where pauses.paused_until <= %(now)s
returning queue, reason, paused_by, paused_at, paused_until;

-- name: delete_pause
-- Zero rows: it is not paused.
delete from everwhen.pauses where tenant_id = %(tenant_id)s and queue = %(queue)s;

-- name: find_pause
-- The pause in force of one queue, or of the whole tenant.
select queue, reason, paused_by, paused_at, paused_until
from everwhen.pauses
where tenant_id = %(tenant_id)s and queue = %(queue)s and (paused_until is null or paused_until > %(now)s);

-- name: list_pauses
-- Those in force.
select queue, reason, paused_by, paused_at, paused_until
from everwhen.pauses
where tenant_id = %(tenant_id)s and queue > %(after)s and (paused_until is null or paused_until > %(now)s)
order by queue
limit %(limit)s;

-- name: insert_change
insert into everwhen.pause_changes (tenant_id, queue, action, changed_by, reason, paused_until, changed_at)
values (%(tenant_id)s, %(queue)s, %(action)s, %(by)s, %(reason)s, %(until)s, %(now)s);

-- name: list_changes
select change_id, queue, action, changed_by, reason, paused_until, changed_at
from everwhen.pause_changes
where tenant_id = %(tenant_id)s and change_id > %(after)s
order by change_id
limit %(limit)s;

-- name: end_pauses
-- Those whose time has come, over all tenants, with the record of it. SKIP LOCKED: somebody may be ending one himself.
with over as materialized (
  select p.ctid as place from everwhen.pauses p
  where p.paused_until <= %(now)s
  order by p.paused_until
  limit %(limit)s
  for update skip locked
), gone as (
  delete from everwhen.pauses p using over where p.ctid = over.place
  returning p.tenant_id, p.queue, p.paused_until
), logged as (
  insert into everwhen.pause_changes (tenant_id, queue, action, changed_by, reason, changed_at)
  select tenant_id, queue, 'resumed', %(by)s, %(reason)s, paused_until from gone
)
select tenant_id, queue, paused_until from gone;

-- name: next_end
-- When the next pause ends by itself.
select paused_until from everwhen.pauses where paused_until is not null order by paused_until limit 1;
