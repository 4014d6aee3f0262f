-- An operation is worked on by whoever holds its row: counters, the rate and the items move in the one transaction that
-- also makes the runs, so a crash leaves all of it or nothing. Look-ups by key stand behind OFFSET 0: see
-- dispatch/queries.sql.

-- name: insert_operation
-- The id is made of the plan token: a request that is repeated finds its operation there.
insert into everwhen.operations
  (tenant_id, id, kind, state, request, requested_by, reason, created_at, changed_by, changed_at, moved_at, total,
   canary_passed, listed_until, listed, listed_count, rate_at, seen_seq, next_at)
values
  (%(tenant_id)s, %(operation_id)s, %(kind)s, 'planned', %(request)s::jsonb, %(requested_by)s, %(reason)s, %(now)s,
   %(requested_by)s, %(now)s, %(now)s, %(total)s, %(canary_passed)s, %(listed_until)s, %(listed)s, %(listed_count)s,
   %(now)s, %(seen_seq)s, %(now)s)
on conflict (tenant_id, id) do nothing;

-- name: insert_items
insert into everwhen.operation_items (tenant_id, operation_id, seq, run_id, nominal_at, utc_offset_seconds)
select %(tenant_id)s, %(operation_id)s, seq, run_id, nominal_at, utc_offset_seconds
from unnest(%(seqs)s::bigint[], %(run_ids)s::uuid[], %(nominal_ats)s::timestamptz[], %(utc_offsets)s::int[])
       as i (seq, run_id, nominal_at, utc_offset_seconds);

-- name: insert_things
-- Items that are schedules, tasks or workflows.
insert into everwhen.operation_items (tenant_id, operation_id, seq, name, uid)
select %(tenant_id)s, %(operation_id)s, seq, name, uid
from unnest(%(seqs)s::bigint[], %(names)s::text[], %(uids)s::uuid[]) as i (seq, name, uid);

-- name: get_operation
select o.tenant_id, o.id, o.kind, o.state, o.state_reason, o.request::text as request, o.requested_by, o.reason,
       o.created_at, o.changed_by, o.changed_reason, o.changed_at, o.finished_at, o.moved_at, o.total, o.done, o.skipped,
       o.succeeded, o.dead, o.ended, o.canary_passed, o.listed_until, o.listed, o.listed_count, o.rate_at, o.seen_seq,
       o.next_at, now() as read_at
from everwhen.operations o
where o.tenant_id = %(tenant_id)s and o.id = %(operation_id)s;

-- name: list_operations
-- Ids are ordered by time: the newest first.
select o.tenant_id, o.id, o.kind, o.state, o.state_reason, o.request::text as request, o.requested_by, o.reason,
       o.created_at, o.changed_by, o.changed_reason, o.changed_at, o.finished_at, o.moved_at, o.total, o.done, o.skipped,
       o.succeeded, o.dead, o.ended, o.canary_passed, o.listed_until, o.listed, o.listed_count, o.rate_at, o.seen_seq,
       o.next_at, now() as read_at
from everwhen.operations o
where o.tenant_id = %(tenant_id)s and o.id < %(before)s
order by o.id desc
limit %(limit)s;

-- name: change_state
-- A person pauses, resumes or aborts. It waits for the operator's step to commit; after it, nothing more is made. Zero
-- rows: the operation is in none of the states `was`.
update everwhen.operations
set state = %(state)s, changed_by = %(changed_by)s, changed_reason = %(changed_reason)s, changed_at = %(now)s,
    state_reason = %(state_reason)s, seen_seq = %(seen_seq)s, next_at = %(next_at)s, finished_at = %(finished_at)s,
    moved_at = %(now)s
where tenant_id = %(tenant_id)s and id = %(operation_id)s and state = any(%(was)s::text[]);

-- name: lock_next
-- The operation that has waited longest for its next step. SKIP LOCKED sends a second operator to another one.
select o.tenant_id, o.id, o.kind, o.state, o.state_reason, o.request::text as request, o.requested_by, o.reason,
       o.created_at, o.changed_by, o.changed_reason, o.changed_at, o.finished_at, o.moved_at, o.total, o.done, o.skipped,
       o.succeeded, o.dead, o.ended, o.canary_passed, o.listed_until, o.listed, o.listed_count, o.rate_at, o.seen_seq,
       o.next_at, now() as read_at
from everwhen.operations o
where o.next_at <= %(now)s
order by o.next_at
limit 1
for no key update skip locked;

-- name: next_due
-- When the operator has to look again, if nobody wakes it before.
select next_at from everwhen.operations where next_at is not null order by next_at limit 1;

-- name: save_operation
-- What a step came to. The caller holds the row.
update everwhen.operations
set state = %(state)s, state_reason = %(state_reason)s, done = %(done)s, skipped = %(skipped)s,
    succeeded = %(succeeded)s, dead = %(dead)s, ended = %(ended)s, total = %(total)s, canary_passed = %(canary_passed)s,
    listed_until = %(listed_until)s, listed = %(listed)s, listed_count = %(listed_count)s, rate_at = %(rate_at)s,
    seen_seq = %(seen_seq)s, next_at = %(next_at)s, moved_at = %(moved_at)s, finished_at = %(finished_at)s
where tenant_id = %(tenant_id)s and id = %(operation_id)s;

-- name: take_items
-- The next items that are left. Nobody else takes them: the caller holds the operation.
select i.seq, i.run_id, i.nominal_at, i.utc_offset_seconds, i.name, i.uid
from everwhen.operation_items i
where i.tenant_id = %(tenant_id)s and i.operation_id = %(operation_id)s and i.state = 'left'
order by i.seq
limit %(limit)s;

-- name: settle_items
update everwhen.operation_items i
set state = (%(states)s::text[])[array_position(%(seqs)s::bigint[], i.seq)],
    reason = (%(reasons)s::text[])[array_position(%(seqs)s::bigint[], i.seq)],
    detail = (%(details)s::text[])[array_position(%(seqs)s::bigint[], i.seq)],
    made_run_id = (%(made_run_ids)s::uuid[])[array_position(%(seqs)s::bigint[], i.seq)]
where i.tenant_id = %(tenant_id)s and i.operation_id = %(operation_id)s and i.seq = any(%(seqs)s::bigint[]);

-- name: list_items
-- All of them, in their order.
select i.seq, i.run_id, i.nominal_at, i.utc_offset_seconds, i.name, i.state, i.reason, i.detail, i.made_run_id
from everwhen.operation_items i
where i.tenant_id = %(tenant_id)s and i.operation_id = %(operation_id)s and i.seq > %(after)s
order by i.seq
limit %(limit)s;

-- name: list_items_in_state
select i.seq, i.run_id, i.nominal_at, i.utc_offset_seconds, i.name, i.state, i.reason, i.detail, i.made_run_id
from everwhen.operation_items i
where i.tenant_id = %(tenant_id)s and i.operation_id = %(operation_id)s and i.state = %(state)s and i.seq > %(after)s
order by i.seq
limit %(limit)s;

-- name: list_done
-- Items whose runs may still go on, after one of them: what an abort cancels.
select i.seq, i.made_run_id
from everwhen.operation_items i
where i.tenant_id = %(tenant_id)s and i.operation_id = %(operation_id)s and i.state = 'done' and i.seq > %(after)s
order by i.seq
limit %(limit)s;

-- name: see_ends
-- How runs of the operation have ended since the last look; a bounded number of items, going round.
with looked as (
  select i.ctid as place, i.seq, i.made_run_id
  from everwhen.operation_items i
  where i.tenant_id = %(tenant_id)s and i.operation_id = %(operation_id)s and i.state = 'done' and i.seq > %(after)s
  order by i.seq
  limit %(limit)s
), ended as materialized (
  select l.place, case when e.state in ('succeeded', 'dead') then e.state else 'ended' end as state
  from looked l
  cross join lateral (
    select e.state from everwhen.run_ends e
    where e.tenant_id = %(tenant_id)s and e.run_id = l.made_run_id
    offset 0) e
), moved as (
  update everwhen.operation_items i
  set state = e.state
  from ended e
  where i.ctid = e.place
  returning i.state
)
select (select count(*) from looked) as looked, (select max(seq) from looked) as last_seq,
       count(*) filter (where m.state = 'succeeded') as succeeded, count(*) filter (where m.state = 'dead') as dead,
       count(*) filter (where m.state = 'ended') as ended
from moved m;
