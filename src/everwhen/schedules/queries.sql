-- name: insert_schedule
-- The name is free again once its schedule is deleted (the index is partial); zero rows mean that it is taken. What a
-- spec says about overlap and failures is what its runs are gated and followed for.
insert into everwhen.schedules
  (tenant_id, uid, name, state, state_reason, revision, task, spec, input, priority, tags, owner,
   created_at, updated_at, is_gated, is_followed)
values
  (%(tenant_id)s, %(uid)s, %(name)s, %(state)s, %(state_reason)s, 1, %(task)s, %(spec)s::jsonb, %(input)s::jsonb,
   %(priority)s, %(tags)s, %(owner)s, %(now)s, %(now)s, %(spec)s::jsonb ? 'overlap',
   %(spec)s::jsonb ?| '{overlap,pause_after_failures}')
on conflict (tenant_id, name) where state <> 'deleted' do nothing
returning uid;

-- name: count_schedules
select count(*) as schedules from everwhen.schedules where tenant_id = %(tenant_id)s and state <> 'deleted';

-- name: count_active
select count(*) as schedules from everwhen.schedules where tenant_id = %(tenant_id)s and state = 'active';

-- name: insert_revision
-- What the schedule has become, with who changed it and why.
insert into everwhen.schedule_revisions
  (tenant_id, uid, revision, action, task, spec, input, priority, tags, owner, changed_by, reason, changed_at, tz_version,
   paused_until)
select tenant_id, uid, revision, %(action)s, task, spec, input, priority, tags, owner, %(changed_by)s, %(reason)s, %(now)s,
       %(tz_version)s, paused_until
from everwhen.schedules
where tenant_id = %(tenant_id)s and uid = %(uid)s;

-- name: insert_watermark
insert into everwhen.watermarks (tenant_id, schedule_uid, decided_until, next_at, tz_version)
values (%(tenant_id)s, %(uid)s, %(decided_until)s, %(next_at)s, %(tz_version)s);

-- name: get_schedule
select s.uid, s.name, s.state, s.state_reason, s.paused_until, s.revision, s.task, s.spec::text as spec, s.input::text as input,
       s.priority, s.tags, s.owner, s.created_at, s.updated_at, w.decided_until, w.next_at, w.last_error
from everwhen.schedules s
join everwhen.watermarks w on w.tenant_id = s.tenant_id and w.schedule_uid = s.uid
where s.tenant_id = %(tenant_id)s and s.name = %(name)s and s.state <> 'deleted';

-- name: list_schedules
select s.uid, s.name, s.state, s.state_reason, s.paused_until, s.revision, s.task, s.spec::text as spec, s.input::text as input,
       s.priority, s.tags, s.owner, s.created_at, s.updated_at, w.decided_until, w.next_at, w.last_error
from everwhen.schedules s
join everwhen.watermarks w on w.tenant_id = s.tenant_id and w.schedule_uid = s.uid
where s.tenant_id = %(tenant_id)s and s.state <> 'deleted' and s.name > %(after)s
order by s.name
limit %(limit)s;

-- name: list_heads
-- As much of schedules as a filter checks, by name.
select s.uid, s.name, s.state, s.task, s.tags
from everwhen.schedules s
where s.tenant_id = %(tenant_id)s and s.state <> 'deleted' and s.name > %(after)s
order by s.name
limit %(limit)s;

-- name: list_heads_tagged
-- The same of those with a tag, along its key.
select s.uid, s.name, s.state, s.task, s.tags
from (
  select t.name from everwhen.tagged t
  where t.tenant_id = %(tenant_id)s and t.kind = 'schedule' and t.tag = %(tag)s and t.name > %(after)s
  order by t.name
  limit %(limit)s) t
cross join lateral (
  select s.* from everwhen.schedules s
  where s.tenant_id = %(tenant_id)s and s.name = t.name and s.state <> 'deleted' offset 0) s
order by s.name;

-- name: list_schedules_named
-- Those of these names, which the caller found by a filter, or was told.
select s.uid, s.name, s.state, s.state_reason, s.paused_until, s.revision, s.task, s.spec::text as spec, s.input::text as input,
       s.priority, s.tags, s.owner, s.created_at, s.updated_at, w.decided_until, w.next_at, w.last_error
from unnest(%(names)s::text[]) n (name)
cross join lateral (
  select s.* from everwhen.schedules s
  where s.tenant_id = %(tenant_id)s and s.name = n.name and s.state <> 'deleted' offset 0) s
cross join lateral (
  select w.* from everwhen.watermarks w where w.tenant_id = %(tenant_id)s and w.schedule_uid = s.uid offset 0) w
order by s.name;

-- name: list_schedules_of_owner
select s.uid, s.name, s.state, s.state_reason, s.paused_until, s.revision, s.task, s.spec::text as spec, s.input::text as input,
       s.priority, s.tags, s.owner, s.created_at, s.updated_at, w.decided_until, w.next_at, w.last_error
from everwhen.schedules s
join everwhen.watermarks w on w.tenant_id = s.tenant_id and w.schedule_uid = s.uid
where s.tenant_id = %(tenant_id)s and s.state <> 'deleted' and s.owner = %(owner)s and s.name > %(after)s
order by s.name
limit %(limit)s;

-- name: set_labels
-- What it does, and when, stays as it is.
update everwhen.schedules
set tags = %(tags)s, owner = %(owner)s, revision = revision + 1, updated_at = %(now)s
where tenant_id = %(tenant_id)s and uid = %(uid)s and revision = %(revision)s;

-- name: list_revisions
select revision, action, task, spec::text as spec, input::text as input, priority, tags, owner, changed_by, reason, changed_at,
       tz_version, paused_until
from everwhen.schedule_revisions
where tenant_id = %(tenant_id)s and uid = %(uid)s and revision > %(after)s
order by revision
limit %(limit)s;

-- name: lock_cursor
-- A change waits for the planner and keeps it away until it commits, so no run of an old revision appears behind it.
-- NO KEY: the planner holds the watermark while its spans check their key against the schedule; a full lock on the
-- schedule would make the two wait for each other.
select s.tenant_id, s.uid, s.name, s.state, s.state_reason, s.paused_until, s.revision, s.task, s.spec::text as spec,
       s.input::text as input, s.priority, s.tags, s.owner, s.updated_at, w.decided_until, w.skip_until, w.skip_reason,
       w.answered
from everwhen.schedules s
join everwhen.watermarks w on w.tenant_id = s.tenant_id and w.schedule_uid = s.uid
where s.tenant_id = %(tenant_id)s and s.name = %(name)s and s.state <> 'deleted'
for no key update of w, s;

-- name: update_schedule
update everwhen.schedules
set task = %(task)s, spec = %(spec)s::jsonb, input = %(input)s::jsonb, priority = %(priority)s, tags = %(tags)s,
    owner = %(owner)s,
    is_gated = %(spec)s::jsonb ? 'overlap', is_followed = %(spec)s::jsonb ?| '{overlap,pause_after_failures}',
    revision = revision + 1, updated_at = %(now)s
where tenant_id = %(tenant_id)s and uid = %(uid)s and revision = %(revision)s;

-- name: set_state
update everwhen.schedules
set state = %(state)s, state_reason = %(reason)s, paused_until = %(until)s, revision = revision + 1, updated_at = %(now)s
where tenant_id = %(tenant_id)s and uid = %(uid)s and revision = %(revision)s;

-- name: move_watermark
-- Only a change of the schedule itself may move it back, to what is already due: runs planned ahead are withdrawn before.
-- What is left beyond it was decided for good (cancelled, or due before its instant), and keeps its answer.
update everwhen.watermarks
set decided_until = %(decided_until)s, next_at = %(next_at)s, skip_until = %(skip_until)s, skip_reason = %(skip_reason)s,
    tz_version = %(tz_version)s, failures = 0, last_error = null, answered = (
      select array_agg(r.nominal_at order by r.nominal_at)
      from everwhen.runs r
      where r.tenant_id = %(tenant_id)s and r.schedule_uid = %(uid)s and r.source = 'schedule'
        and r.run_id >= everwhen.first_run_id(%(decided_until)s) and r.nominal_at > %(decided_until)s)
where tenant_id = %(tenant_id)s and schedule_uid = %(uid)s;

-- name: lock_due
-- Schedules whose next instant comes within the planning horizon, over all tenants. SKIP LOCKED lets any number of
-- schedulers share them; whoever holds the watermark row decides, and nobody else meanwhile.
select tenant_id, schedule_uid, decided_until, skip_until, skip_reason, answered, failures, tz_version
from everwhen.watermarks
where next_at <= %(horizon)s
order by next_at
limit %(limit)s
for no key update skip locked;

-- name: read_specs
-- Run after the watermarks are locked, in a statement of its own: joined to the lock, a change that commits between its
-- snapshot and its lock would pair the new watermark with the old definition.
select uid, revision, spec::text as spec
from everwhen.schedules
where tenant_id = any(%(tenant_ids)s::uuid[]) and uid = any(%(uids)s::uuid[]);

-- name: next_due
-- When the planner has to look again.
select next_at from everwhen.watermarks where next_at is not null order by next_at limit 1;

-- name: advance_watermarks
-- The watermark only moves forward here; the guard makes a plan from a stale cursor touch nothing. Rows are found by key
-- whatever the statistics say (see dispatch/queries.sql).
update everwhen.watermarks w
set decided_until = (%(new)s::timestamptz[])[array_position(%(uids)s::uuid[], w.schedule_uid)],
    next_at = (%(next)s::timestamptz[])[array_position(%(uids)s::uuid[], w.schedule_uid)],
    tz_version = %(tz_version)s, failures = 0, last_error = null, answered = null
where w.tenant_id = any(%(tenant_ids)s::uuid[]) and w.schedule_uid = any(%(uids)s::uuid[])
  and w.decided_until = (%(old)s::timestamptz[])[array_position(%(uids)s::uuid[], w.schedule_uid)]
  and w.decided_until <= (%(new)s::timestamptz[])[array_position(%(uids)s::uuid[], w.schedule_uid)];

-- name: note_answered
-- What is answered beyond the watermarks that were advanced: for few of them, so that the others pay nothing for it.
update everwhen.watermarks w
set answered = ((%(answered)s::text[])[array_position(%(uids)s::uuid[], w.schedule_uid)])::timestamptz[]
where w.tenant_id = any(%(tenant_ids)s::uuid[]) and w.schedule_uid = any(%(uids)s::uuid[]);

-- name: put_off
-- A schedule that cannot be planned is put off, with the error, so that it neither stops the loop nor is forgotten.
update everwhen.watermarks
set next_at = %(next_at)s, failures = failures + 1, last_error = %(error)s
where tenant_id = %(tenant_id)s and schedule_uid = %(uid)s;

-- name: page_watermarks
-- One page of all watermarks, for the sweep after a new release of the tz database. It locks nothing.
select tenant_id, schedule_uid, tz_version
from everwhen.watermarks
where (tenant_id, schedule_uid) > (%(after_tenant_id)s, %(after_uid)s)
order by tenant_id, schedule_uid
limit %(limit)s;

-- name: count_releases
-- With which releases of the tz database a tenant's schedules were planned: whether a new one has been taken into use.
select tz_version, count(*) as schedules
from everwhen.watermarks
where tenant_id = %(tenant_id)s
group by tz_version
order by tz_version nulls first;

-- name: lock_for_rezoning
-- In the order of the key, like every batch that waits for locks; both rows at once, as a change of the schedule takes
-- them, or the two could wait for each other.
select w.tenant_id, w.schedule_uid, s.state, s.revision, s.spec::text as spec, w.decided_until, w.next_at, w.skip_until,
       w.skip_reason, w.answered, w.failures, w.tz_version
from everwhen.schedules s
join everwhen.watermarks w on w.tenant_id = s.tenant_id and w.schedule_uid = s.uid
where w.tenant_id = any(%(tenant_ids)s::uuid[]) and w.schedule_uid = any(%(uids)s::uuid[])
order by w.tenant_id, w.schedule_uid
for no key update of w, s;

-- name: stamp_release
-- These schedules fire next as they did: only the release is noted.
update everwhen.watermarks
set tz_version = %(tz_version)s
where tenant_id = any(%(tenant_ids)s::uuid[]) and schedule_uid = any(%(uids)s::uuid[]);

-- name: page_active
-- One page of the active schedules up to a tenant, by key: of one tenant, when the page begins in it.
select tenant_id, uid, name, spec::text as spec
from everwhen.schedules
where (tenant_id, uid) > (%(after_tenant_id)s, %(after_uid)s) and tenant_id <= %(last_tenant_id)s and state = 'active'
order by tenant_id, uid
limit %(limit)s;

-- name: save_streak
-- A schedule that pauses itself after some failures in a row; a change of the number keeps the count.
insert into everwhen.streaks (tenant_id, schedule_uid, pause_after)
values (%(tenant_id)s, %(uid)s, %(pause_after)s)
on conflict (tenant_id, schedule_uid) do update set pause_after = excluded.pause_after;

-- name: drop_streak
delete from everwhen.streaks where tenant_id = %(tenant_id)s and schedule_uid = %(uid)s;

-- name: reset_streak
-- A schedule that is resumed begins anew.
update everwhen.streaks
set failures = 0, run_ids = '{}', pause_at = null
where tenant_id = %(tenant_id)s and schedule_uid = %(uid)s;

-- name: find_streak_runs
-- Which of the ended runs count: those that a schedule planned which counts its failures.
select r.tenant_id, r.schedule_uid, r.run_id
from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[]) as e (tenant_id, run_id)
cross join lateral (
  select r.tenant_id, r.schedule_uid, r.run_id
  from everwhen.runs r
  where r.tenant_id = e.tenant_id and r.run_id = e.run_id and r.source = 'schedule' and exists (
    select from everwhen.streaks s where s.tenant_id = r.tenant_id and s.schedule_uid = r.schedule_uid)
  offset 0) r;

-- name: lock_streaks
-- After the gates, in the order of the key.
select tenant_id, schedule_uid, pause_after, failures, run_ids, pause_at
from everwhen.streaks
where tenant_id = any(%(tenant_ids)s::uuid[]) and schedule_uid = any(%(uids)s::uuid[])
order by tenant_id, schedule_uid
for no key update;

-- name: write_streak
update everwhen.streaks
set failures = %(failures)s, run_ids = %(run_ids)s, pause_at = %(pause_at)s
where tenant_id = %(tenant_id)s and schedule_uid = %(uid)s;

-- name: find_failing
-- Schedules that are to be paused for their failures. It locks nothing: the schedule is locked first, as everywhere.
select s.tenant_id, s.schedule_uid, s.pause_at as at
from everwhen.streaks s
where s.pause_at is not null
order by s.pause_at
limit %(limit)s;

-- name: put_off_failing
update everwhen.streaks
set pause_at = %(until)s
where tenant_id = %(tenant_id)s and schedule_uid = %(uid)s and pause_at <= %(now)s;

-- name: find_pauses_to_end
-- Schedules whose pause ends by itself, those that end first.
select tenant_id, uid as schedule_uid, paused_until as at
from everwhen.schedules
where paused_until is not null
order by paused_until
limit %(limit)s;

-- name: put_off_resuming
-- Only one whose time has come: the end that somebody chose for another pause stays.
update everwhen.schedules
set paused_until = %(until)s
where tenant_id = %(tenant_id)s and uid = %(uid)s and paused_until <= %(now)s;

-- name: lock_cursor_of
-- A schedule by its uid, as lock_cursor locks it by its name.
select s.tenant_id, s.uid, s.name, s.state, s.state_reason, s.paused_until, s.revision, s.task, s.spec::text as spec,
       s.input::text as input, s.priority, s.tags, s.owner, s.updated_at, w.decided_until, w.skip_until, w.skip_reason,
       w.answered
from everwhen.schedules s
join everwhen.watermarks w on w.tenant_id = s.tenant_id and w.schedule_uid = s.uid
where s.tenant_id = %(tenant_id)s and s.uid = %(uid)s and s.state <> 'deleted'
for no key update of w, s;
