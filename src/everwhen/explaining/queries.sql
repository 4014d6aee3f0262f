-- name: record_sightings
-- Who has asked this process for runs. Only at lines that there are, so that a made-up queue leaves no trace. What is
-- known of the tasks is replaced: a fleet that learns or forgets some is seen as it is now.
insert into everwhen.sightings (tenant_id, queue, server_id, tasks, last_seen_at)
select s.tenant_id, s.queue, %(server_id)s, (select array_agg(t) from jsonb_array_elements_text(s.tasks::jsonb) t), %(now)s
from unnest(%(tenant_ids)s::uuid[], %(queues)s::text[], %(tasks)s::text[]) as s (tenant_id, queue, tasks)
where case when s.tenant_id = '00000000-0000-0000-0000-000000000000'
           then exists (select from everwhen.lanes l where l.queue = s.queue)
           else exists (select from everwhen.lanes l where l.tenant_id = s.tenant_id and l.queue = s.queue) end
order by 1, 2
on conflict (tenant_id, queue, server_id) do update
set tasks = excluded.tasks, last_seen_at = excluded.last_seen_at;

-- name: forget_sightings
-- Who has not asked for so long that nobody counts on it.
delete from everwhen.sightings
where ctid = any(array(
  select ctid from everwhen.sightings where last_seen_at < %(before)s order by last_seen_at limit %(limit)s
  for update skip locked));

-- name: forget_states
-- What blocked a line so long ago that nobody asks any more why a run waited then.
delete from everwhen.line_states
where ctid = any(array(
  select ctid from everwhen.line_states where until < %(before)s order by until limit %(limit)s for update skip locked));

-- name: forget_observations
-- Before the states of that time: where nobody is known to have watched, no explanation claims to be complete.
delete from everwhen.observations
where ctid = any(array(
  select ctid from everwhen.observations where until < %(before)s order by until limit %(limit)s for update skip locked));

-- name: look_at_lines
-- The next lines in the order of their key, each with its oldest run that is due since before `standing`: one probe of
-- the line's key for each priority.
select l.tenant_id, l.queue, d.oldest_due_at
from (
  select l.tenant_id, l.queue
  from everwhen.lanes l
  where (l.tenant_id, l.queue) > (%(after_tenant_id)s, %(after_queue)s)
  order by l.tenant_id, l.queue
  limit %(limit)s) l
cross join lateral (
  select min(w.available_at) as oldest_due_at
  from generate_series(0, 9) p
  cross join lateral (
    select w.available_at
    from everwhen.waiting w
    where w.tenant_id = l.tenant_id and w.queue = l.queue and w.priority = p and w.available_at <= %(standing)s
    order by w.available_at
    limit 1) w
  offset 0) d
order by l.tenant_id, l.queue;

-- name: look_closer
-- What is seen of lines that stand. Everything is counted up to a bound. The tasks that nobody knows are those of the
-- line that no fleet which asked lately has among its own.
select q.tenant_id, q.queue, q.oldest_due_at, d.due, f.in_flight, l.max_in_flight, f.filled_at, f.is_held, s.last_seen_at,
       w.live_workers, w.live_slots, w.cordoned, w.draining, w.held_back_at,
       coalesce(u.unknown_tasks, '{}') as unknown_tasks,
       e.rests_until, e.failing_since as rests_since, e.failures as endpoint_failures, e.last_error as endpoint_error,
       b.broker, b.broker_away_since, t.tenant_limit, t.tenant_in_flight,
       r.rate_tokens, r.rate_seconds, r.rate_burst, r.rate_full_at
from unnest(%(tenant_ids)s::uuid[], %(queues)s::text[], %(oldest)s::timestamptz[]) as q (tenant_id, queue, oldest_due_at)
cross join lateral (
  select l.max_in_flight, l.has_tenant_limit, l.is_limited
  from everwhen.lanes l where l.tenant_id = q.tenant_id and l.queue = q.queue offset 0) l
left join lateral (
  select t.in_flight as tenant_limit, (
           select count(*) from everwhen.leases o
           where o.tenant_id = q.tenant_id and o.lease_token > 0 and o.queue not like 'everwhen:%%') as tenant_in_flight
  from everwhen.tenant_limits t where l.has_tenant_limit and t.tenant_id = q.tenant_id
  offset 0) t on true
left join lateral (
  select k.rate_tokens, k.rate_seconds, k.rate_burst, (
           select b.full_at from everwhen.key_rates b
           where b.tenant_id = q.tenant_id and b.task = '' and b.limit_key = q.queue) as rate_full_at
  from everwhen.queues k where l.is_limited and k.tenant_id = q.tenant_id and k.name = q.queue and k.deleted_at is null
  offset 0) r on true
cross join lateral (
  select count(*) as due
  from generate_series(0, 9) p
  cross join lateral (
    select from everwhen.waiting w
    where w.tenant_id = q.tenant_id and w.queue = q.queue and w.priority = p and w.available_at <= %(now)s
    limit %(most)s) w
  offset 0) d
cross join lateral (
  select count(*) as in_flight, max(o.claimed_at) as filled_at, coalesce(bool_or(o.lease_until > %(now)s), false) as is_held
  from (
    select o.claimed_at, o.lease_until
    from everwhen.leases o
    where o.tenant_id = q.tenant_id and o.queue = q.queue and o.lease_token > 0 -- the predicate of leases_lane
    limit %(most)s) o
  offset 0) f
cross join lateral (
  select max(s.last_seen_at) as last_seen_at
  from everwhen.sightings s
  where s.tenant_id = any(array[q.tenant_id, '00000000-0000-0000-0000-000000000000'::uuid]) and s.queue = q.queue
  offset 0) s
cross join lateral (
  -- Workers that announced themselves and live. What they say decides nothing; it is told.
  select count(*) as live_workers, coalesce(sum(w.slots) filter (where w.wish = 'active' and not w.is_stopping), 0)::bigint as live_slots,
         count(*) filter (where w.wish = 'cordoned' and not w.is_stopping) as cordoned,
         count(*) filter (where w.wish = 'draining' or w.is_stopping) as draining, max(w.wished_at) as held_back_at
  from everwhen.workers w
  where w.tenant_id = any(array[q.tenant_id, '00000000-0000-0000-0000-000000000000'::uuid])
    and w.last_seen_at > %(present)s and q.queue = any(w.queues)
  offset 0) w
cross join lateral (
  select array_agg(t.name order by t.name) as unknown_tasks
  from (
    select t.name
    from everwhen.tasks t
    where t.tenant_id = q.tenant_id and t.queue = q.queue
      and not exists (
        select from everwhen.sightings s
        where s.tenant_id = any(array[q.tenant_id, '00000000-0000-0000-0000-000000000000'::uuid]) and s.queue = q.queue
          and s.last_seen_at >= %(live)s and (s.tasks is null or t.name = any(s.tasks)))
    order by t.name
    limit 100) t
  offset 0) u
left join lateral (
  select e.rests_until, e.failing_since, e.failures, e.last_error
  from everwhen.endpoint_states e
  where e.tenant_id = q.tenant_id and e.queue = q.queue
  offset 0) e on true
left join lateral (
  -- A broker that is away, or that no relay has looked after for a while: its relays write every few seconds.
  select k.delivery as broker, case when b.is_away then b.since else b.seen_at end as broker_away_since
  from everwhen.queues k
  left join everwhen.brokers b on b.broker = k.delivery
  where k.tenant_id = q.tenant_id and k.name = q.queue and k.delivery in ('nats', 'rabbitmq') and k.deleted_at is null
    and (b.broker is null or b.is_away or b.seen_at < %(relayed)s)
  offset 0) b on true
order by q.tenant_id, q.queue;

-- name: open_states
-- What is open of the lines from one key (exclusive) to another (inclusive).
select tenant_id, queue, task, reason, since, facts::text as facts
from everwhen.line_states
where until is null
  and (tenant_id, queue) > (%(after_tenant_id)s, %(after_queue)s) and (tenant_id, queue) <= (%(last_tenant_id)s, %(last_queue)s)
order by tenant_id, queue, task, reason
limit %(limit)s;

-- name: close_states
-- What has ended. Zero rows where another observer has seen it as well.
update everwhen.line_states s
set until = greatest(s.since, %(now)s)
from unnest(%(tenant_ids)s::uuid[], %(queues)s::text[], %(tasks)s::text[], %(reasons)s::text[])
       as c (tenant_id, queue, task, reason)
where s.tenant_id = c.tenant_id and s.queue = c.queue and s.task = c.task and s.reason = c.reason and s.until is null;

-- name: insert_states
-- What has begun; nothing where another observer has noted it already.
insert into everwhen.line_states (tenant_id, queue, task, reason, opened_at, since, facts)
select tenant_id, queue, task, reason, %(now)s, least(since, %(now)s), facts::jsonb
from unnest(%(tenant_ids)s::uuid[], %(queues)s::text[], %(tasks)s::text[], %(reasons)s::text[], %(sinces)s::timestamptz[],
            %(facts)s::text[]) as b (tenant_id, queue, task, reason, since, facts)
on conflict do nothing;

-- name: extend_observation
-- That somebody watched until now. Zero rows: the last look is too long ago, and a new stretch begins.
update everwhen.observations
set until = %(now)s
where observer_id = %(observer_id)s and since = %(since)s and until >= %(unbroken)s;

-- name: begin_observation
insert into everwhen.observations (observer_id, since, until)
values (%(observer_id)s, %(now)s, %(now)s)
on conflict do nothing;

-- name: find_generations
-- Every schedule that has had this name, the newest first: a deleted one leaves its name to others, and its history.
select s.uid, s.state, s.state_reason, s.created_at, s.updated_at, w.decided_until, w.failures, w.last_error
from (
  select s.uid, s.state, s.state_reason, s.created_at, s.updated_at
  from everwhen.schedules s
  where s.tenant_id = %(tenant_id)s and s.name = %(name)s
  order by s.created_at desc
  limit %(limit)s) s
cross join lateral (
  select w.decided_until, w.failures, w.last_error
  from everwhen.watermarks w
  where w.tenant_id = %(tenant_id)s and w.schedule_uid = s.uid
  offset 0) w
order by s.created_at desc;

-- name: get_generation
-- One schedule by its uid, deleted or not.
select s.uid, s.state, s.state_reason, s.created_at, s.updated_at, w.decided_until, w.failures, w.last_error
from everwhen.schedules s
cross join lateral (
  select w.decided_until, w.failures, w.last_error
  from everwhen.watermarks w
  where w.tenant_id = s.tenant_id and w.schedule_uid = s.uid
  offset 0) w
where s.tenant_id = %(tenant_id)s and s.uid = %(schedule_uid)s;

-- name: revision_in_force
-- What a schedule was at an instant; before it was made, what it was made as.
select revision, action, task, spec::text as spec, changed_by, reason, changed_at
from everwhen.schedule_revisions
where tenant_id = %(tenant_id)s and uid = %(schedule_uid)s and (changed_at <= %(at)s or revision = 1)
order by revision desc
limit 1;

-- name: get_revision
select revision, action, task, spec::text as spec, changed_by, reason, changed_at
from everwhen.schedule_revisions
where tenant_id = %(tenant_id)s and uid = %(schedule_uid)s and revision = %(revision)s;

-- name: get_task_policy
select retry::text as retry, timeout_seconds, heartbeat_timeout_seconds, start_deadline_seconds, total_deadline_seconds
from everwhen.tasks
where tenant_id = %(tenant_id)s and name = %(task)s;

-- name: find_span
-- The recorded span that an instant lies in.
select first_at, last_at, instants, verdict, reason, recorded_at, detail::text as detail
from (
  select s.*
  from everwhen.spans s
  where s.tenant_id = %(tenant_id)s and s.schedule_uid = %(schedule_uid)s and s.first_at <= %(at)s
  order by s.first_at desc
  limit 10) s
where s.last_at >= %(at)s
order by s.first_at desc
limit 1;

-- name: list_spans_near
-- The spans around one with its verdict and reason: what one bounded step of the planner found is a span, and the next
-- step's is its neighbour.
(select first_at, last_at, instants, verdict, reason, recorded_at, detail::text as detail
 from everwhen.spans
 where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and first_at <= %(first_at)s
   and verdict = %(verdict)s and reason = %(reason)s
 order by first_at desc
 limit %(limit)s)
union all
(select first_at, last_at, instants, verdict, reason, recorded_at, detail::text as detail
 from everwhen.spans
 where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and first_at > %(first_at)s
   and verdict = %(verdict)s and reason = %(reason)s
 order by first_at
 limit %(limit)s)
order by first_at;

-- name: find_arrears
-- The stretch of a schedule's past that an instant was left in, the latest of them: why, when it was found, and whether
-- it is worked off.
select cause, since, as_of as found_at, rule is null as is_held, finished_at is not null as is_finished
from everwhen.arrears
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and since < %(at)s and until >= %(at)s
order by arrears_id desc
limit 1;

-- name: decided_before
-- When a schedule was looked at last, before the look that decided what is asked about: the newest trace of its runs
-- before an instant and of its spans. Null when there is none among the nearest ones.
select max(seen.at) as at
from (
  (select max(r.planned_at) as at
   from (
     select r.planned_at
     from everwhen.runs r
     where r.tenant_id = %(tenant_id)s and r.schedule_uid = %(schedule_uid)s and r.run_id < everwhen.first_run_id(%(at)s)
     order by r.run_id desc
     limit 200) r
   where r.planned_at < %(before)s)
  union all
  (select max(s.recorded_at) as at
   from (
     select s.recorded_at
     from everwhen.spans s
     where s.tenant_id = %(tenant_id)s and s.schedule_uid = %(schedule_uid)s and s.first_at <= %(at)s
     order by s.first_at desc
     limit 200) s
   where s.recorded_at < %(before)s)) seen;

-- name: list_blocked
-- What blocked a line, or one task of it, in a stretch of time: what goes on, and what ended within or after it.
(select reason, since, until, opened_at, facts::text as facts
 from everwhen.line_states
 where tenant_id = %(tenant_id)s and queue = %(queue)s and task = any(array['', %(task)s]) and until is null
   and since < %(until)s
 limit 100)
union all
(select reason, since, until, opened_at, facts::text as facts
 from everwhen.line_states
 where tenant_id = %(tenant_id)s and queue = %(queue)s and until > %(since)s and task = any(array['', %(task)s])
   and since < %(until)s
 order by until
 limit %(limit)s)
order by since;

-- name: list_pause_changes
-- When a queue, and the whole tenant (''), was paused and went on: the latest changes up to an instant, oldest first.
select queue, action, reason, changed_at
from (
  select change_id, queue, action, reason, changed_at
  from everwhen.pause_changes
  where tenant_id = %(tenant_id)s and queue = any(array['', %(queue)s]) and changed_at < %(until)s
  order by change_id desc
  limit %(limit)s) c
order by change_id;

-- name: list_observed
-- Who watched the lines in a stretch of time.
select since, until
from everwhen.observations
where until >= %(since)s::timestamptz and since <= %(until)s::timestamptz
order by since
limit %(limit)s;

-- name: count_ahead
-- How many due runs are ahead of one in its line, by priority, each up to a bound: those with a higher one, and older ones
-- of its own. One walk along the line's key for each priority, none past the run itself.
select p as priority, count(*) as ahead
from generate_series(%(priority)s::int, 9) p
cross join lateral (
  select from everwhen.waiting w
  where w.tenant_id = %(tenant_id)s and w.queue = %(queue)s and w.priority = p
    and w.available_at <= case when p > %(priority)s then %(now)s::timestamptz else %(available_at)s::timestamptz end
    and w.run_id <> %(run_id)s
  limit %(most)s) w
group by p
order by p desc;

-- name: last_turn
-- Whether a schedule was paused at an instant: the last change until then that made it pause or go on.
select action
from everwhen.schedule_revisions
where tenant_id = %(tenant_id)s and uid = %(schedule_uid)s and changed_at <= %(at)s
  and action = any(array['created', 'paused', 'resumed'])
order by revision desc
limit 1;
