-- Each statement names a promise and returns what breaks it: no rows when the promise holds.

-- name: occurrences_with_several_runs
-- One intention, one run. The primary key forbids it; this guards against a lost index and a fault in the id itself.
select tenant_id, min(run_id::text) as subject, format('%%s runs for %%s at %%s', count(*), schedule_uid, nominal_at) as detail
from everwhen.runs
where schedule_uid is not null and source <> 'api'
group by tenant_id, schedule_uid, nominal_at, source, operation_id, origin_run_id,
         case when source = 'redrive' and operation_id is null then run_id end -- by hand: as often as it is asked for
having count(*) > 1
limit %(limit)s;

-- name: alerts_that_miscount
-- A message tells what it was given: its count, its counts by kind and what its receiver was told of are one number.
select d.tenant_id, d.delivery_id::text as subject,
       format('tells %%s, by kind %%s, told %%s, shows %%s', d.total, c.counted, k.told, jsonb_array_length(d.shown)) as detail
from everwhen.alert_deliveries d
cross join lateral (select coalesce(sum(c.value::int), 0) as counted from jsonb_each_text(d.counts) c) c
cross join lateral (
  select count(*) as told from everwhen.alert_told t where t.tenant_id = d.tenant_id and t.delivery_id = d.delivery_id) k
where c.counted <> d.total or jsonb_array_length(d.shown) <> least(d.total, 20)
  or (not d.is_test and d.resend_of is null and k.told <> d.total)
limit %(limit)s;

-- name: alerts_without_an_outcome
-- Each try was written down, and a delivery is where its last try left it.
select d.tenant_id, d.delivery_id::text as subject,
       format('%%s after %%s tries, the last %%s', d.state, d.tries, coalesce(t.outcome, 'unknown')) as detail
from everwhen.alert_deliveries d
left join everwhen.alert_tries t on t.tenant_id = d.tenant_id and t.delivery_id = d.delivery_id and t.try = d.tries
where case d.state
        when 'delivered' then t.outcome is distinct from 'delivered'
        when 'dead' then d.response is null or coalesce(t.outcome, 'delivered') not in ('failed', 'refused')
        when 'sending' then t.try is null or t.ended_at is not null
        else d.tries > 0 and coalesce(t.outcome, 'delivered') not in ('failed', 'refused')
      end
limit %(limit)s;

-- name: alerts_nobody_sends
-- What happened is matched, and what is due is tried.
select tenant_id, subject, detail from (
  select d.tenant_id, d.delivery_id::text as subject, format('due since %%s', d.look_at) as detail
  from everwhen.alert_deliveries d where d.look_at < %(before)s
  union all
  select s.tenant_id, s.signal_id::text, format('%%s at %%s was not matched', s.kind, s.at)
  from everwhen.alert_signals s where s.at < %(before)s) a
limit %(limit)s;

-- name: runs_in_several_places
-- A run waits, or is held behind its schedule's gate, or is leased, or has ended: never two of the four.
select r.tenant_id, r.run_id::text as subject,
       concat_ws(' and ', case when w.run_id is not null then 'waits' end,
                 case when h.run_id is not null then 'is held' end, case when l.run_id is not null then 'is leased' end,
                 case when e.run_id is not null then 'has ended' end) as detail
from everwhen.runs r
left join everwhen.waiting w on w.tenant_id = r.tenant_id and w.run_id = r.run_id
left join everwhen.leases l on l.tenant_id = r.tenant_id and l.run_id = r.run_id
left join everwhen.held h on h.tenant_id = r.tenant_id and h.run_id = r.run_id
left join everwhen.run_ends e on e.tenant_id = r.tenant_id and e.run_id = r.run_id
where num_nonnulls(w.run_id, h.run_id, l.run_id, e.run_id) > 1
limit %(limit)s;

-- name: runs_in_no_place
-- Nothing vanishes: a run that neither waits, nor is held, nor is leased has an end.
select r.tenant_id, r.run_id::text as subject, 'neither waits, nor is held, nor is leased, nor has ended' as detail
from everwhen.runs r
left join everwhen.waiting w on w.tenant_id = r.tenant_id and w.run_id = r.run_id
left join everwhen.leases l on l.tenant_id = r.tenant_id and l.run_id = r.run_id
left join everwhen.held h on h.tenant_id = r.tenant_id and h.run_id = r.run_id
left join everwhen.run_ends e on e.tenant_id = r.tenant_id and e.run_id = r.run_id
where num_nonnulls(w.run_id, h.run_id, l.run_id, e.run_id) = 0
limit %(limit)s;

-- name: overlapping_leases
-- No two leases of one run were valid at once: the next attempt is claimed after the last was closed.
select tenant_id, run_id::text as subject,
       format('attempt %%s was claimed at %%s, before attempt %%s was closed at %%s', attempt, claimed_at, before, closed_at) as detail
from (
  select a.tenant_id, a.run_id, a.attempt, a.claimed_at, lag(a.attempt) over line as before,
         lag(a.finished_at) over line as closed_at
  from (
    select tenant_id, run_id, attempt, claimed_at, finished_at from everwhen.attempts
    union all
    select tenant_id, run_id, attempt, claimed_at, null from everwhen.leases) a
  window line as (partition by a.tenant_id, a.run_id order by a.attempt)) a
where claimed_at < closed_at
limit %(limit)s;

-- name: tokens_that_do_not_grow
-- Fencing: each attempt's token is larger than the one before.
select tenant_id, run_id::text as subject, format('attempt %%s has token %%s after %%s', attempt, lease_token, before) as detail
from (
  select a.*, lag(a.lease_token) over (partition by a.tenant_id, a.run_id order by a.attempt) as before
  from (
    select tenant_id, run_id, attempt, lease_token from everwhen.attempts
    union all
    select tenant_id, run_id, attempt, lease_token from everwhen.leases) a) a
where lease_token <= before
limit %(limit)s;

-- name: attempts_with_gaps
-- Attempts are numbered 1 to n, and an ended run says how many there were.
select r.tenant_id, r.run_id::text as subject,
       format('%%s attempts, the last numbered %%s, the end says %%s', a.n, a.last, coalesce(e.attempts::text, 'nothing')) as detail
from (
  select tenant_id, run_id, count(*) as n, max(attempt) as last
  from (select tenant_id, run_id, attempt from everwhen.attempts
        union all select tenant_id, run_id, attempt from everwhen.leases) opened
  group by tenant_id, run_id) a
join everwhen.runs r on r.tenant_id = a.tenant_id and r.run_id = a.run_id
left join everwhen.run_ends e on e.tenant_id = a.tenant_id and e.run_id = a.run_id
where a.n <> a.last or e.attempts <> a.n
limit %(limit)s;

-- name: claims_before_due
-- Nothing is handed out before the database's clock says that it is due.
select a.tenant_id, a.run_id::text as subject, format('attempt %%s was claimed at %%s, due at %%s', a.attempt, a.claimed_at, r.due_at) as detail
from (
  select tenant_id, run_id, attempt, claimed_at from everwhen.attempts
  union all
  select tenant_id, run_id, attempt, claimed_at from everwhen.leases) a
join everwhen.runs r on r.tenant_id = a.tenant_id and r.run_id = a.run_id
where a.claimed_at < r.due_at
limit %(limit)s;

-- name: successes_without_a_winner
-- A run that succeeded has exactly one attempt that did, and no other run has one.
select r.tenant_id, r.run_id::text as subject,
       format('the run is %%s with %%s successful attempts', coalesce(e.state, 'not ended'), r.wins) as detail
from (
  select tenant_id, run_id, count(*) filter (where outcome = 'succeeded') as wins
  from everwhen.attempts group by tenant_id, run_id) r
left join everwhen.run_ends e on e.tenant_id = r.tenant_id and e.run_id = r.run_id
where r.wins > 1 or (r.wins = 1) <> (coalesce(e.state, '') = 'succeeded')
limit %(limit)s;

-- name: states_that_history_does_not_tell
-- The state is the fold of the history: the last event that moves a run says where it is.
select r.tenant_id, r.run_id::text as subject,
       format('the last event is %%s, the row says %%s', coalesce(h.kind, 'missing'), r.state) as detail
from (
  select r.tenant_id, r.run_id,
         coalesce(e.state, case when l.run_id is not null then 'leased' when w.run_id is not null then 'waits'
                                when h.run_id is not null then 'held' end) as state
  from everwhen.runs r
  left join everwhen.waiting w on w.tenant_id = r.tenant_id and w.run_id = r.run_id
  left join everwhen.held h on h.tenant_id = r.tenant_id and h.run_id = r.run_id
  left join everwhen.leases l on l.tenant_id = r.tenant_id and l.run_id = r.run_id
  left join everwhen.run_ends e on e.tenant_id = r.tenant_id and e.run_id = r.run_id) r
left join (
  select distinct on (tenant_id, run_id) tenant_id, run_id, kind
  from everwhen.events
  where kind not in ('refused', 'cancel_requested', 'adopted', 'log_ended', 'zombie', 'rolled')
  order by tenant_id, run_id, event_id desc) h on h.tenant_id = r.tenant_id and h.run_id = r.run_id
where r.state is distinct from
  case when h.kind in ('admitted', 'retrying', 'released') then 'waits' when h.kind = 'claimed' then 'leased'
       when h.kind = 'planned' and r.state = 'waits' then 'waits' -- planned into the line, or behind its schedule's gate
       when h.kind = 'planned' then 'held'
       else h.kind end
limit %(limit)s;

-- name: claims_that_history_does_not_tell
-- Every attempt was recorded when it was claimed, in the same transaction, and nothing else was.
select coalesce(a.tenant_id, h.tenant_id) as tenant_id, coalesce(a.run_id, h.run_id)::text as subject,
       format('attempt %%s: claimed %%s, by the history %%s', coalesce(a.attempt, h.attempt), coalesce(a.claimed_at::text, 'never'),
              coalesce(h.at::text, 'never')) as detail
from (
  select tenant_id, run_id, attempt, claimed_at from everwhen.attempts
  union all select tenant_id, run_id, attempt, claimed_at from everwhen.leases) a
full join (
  select tenant_id, run_id, attempt, at from everwhen.events where kind = 'claimed') h
  on h.tenant_id = a.tenant_id and h.run_id = a.run_id and h.attempt = a.attempt
where a.claimed_at is distinct from h.at
limit %(limit)s;

-- name: attempts_that_history_does_not_tell
-- Every attempt was closed together with the event that says how: both carry the instant of their transaction.
select a.tenant_id, a.run_id::text as subject,
       format('attempt %%s was closed at %%s as %%s, which no event says', a.attempt, a.finished_at, a.outcome) as detail
from everwhen.attempts a
left join everwhen.events e
  on e.tenant_id = a.tenant_id and e.run_id = a.run_id and e.attempt = a.attempt and e.at = a.finished_at
 and e.kind in ('succeeded', 'dead', 'cancelled', 'retrying', 'released')
where e.run_id is null
limit %(limit)s;

-- name: ends_that_history_does_not_tell
-- Every end was written together with the event that says it, with the same instant and the same reason.
select e.tenant_id, e.run_id::text as subject,
       format('%%s at %%s for %%s, by its event at %%s for %%s', e.state, e.finished_at, coalesce(e.reason, 'no reason'), h.at,
              coalesce(h.reason, 'no reason')) as detail
from everwhen.run_ends e
join everwhen.events h on h.tenant_id = e.tenant_id and h.run_id = e.run_id and h.kind = e.state
where h.at <> e.finished_at or h.reason is distinct from e.reason
limit %(limit)s;

-- name: plans_that_history_does_not_tell
-- Every run was written together with the event that says so. One that was withdrawn and decided anew has it again.
select r.tenant_id, r.run_id::text as subject, format('planned at %%s, by its events at %%s', r.planned_at, h.at) as detail
from everwhen.runs r
join (
  select distinct on (tenant_id, run_id) tenant_id, run_id, at
  from (
    select tenant_id, run_id, event_id, at, lag(kind) over (partition by tenant_id, run_id order by event_id) as before
    from everwhen.events where kind <> all(%(quiet)s::text[])) e
  where before is null or before = 'unplanned'
  order by tenant_id, run_id, event_id desc) h on h.tenant_id = r.tenant_id and h.run_id = r.run_id
where h.at <> r.planned_at
limit %(limit)s;

-- name: failures_that_history_does_not_tell
-- The failures that a live run carries are those of its attempts.
select l.tenant_id, l.run_id::text as subject, format('%%s failures, by its attempts %%s', l.failures, coalesce(a.n, 0)) as detail
from (
  select tenant_id, run_id, failures from everwhen.waiting
  union all select tenant_id, run_id, failures from everwhen.leases) l
left join (
  select tenant_id, run_id, count(*) as n
  from everwhen.attempts where outcome in ('failed', 'timed_out', 'lost')
  group by tenant_id, run_id) a on a.tenant_id = l.tenant_id and a.run_id = l.run_id
where l.failures <> coalesce(a.n, 0)
limit %(limit)s;

-- name: impossible_edges
-- Only decisions of the table of edges follow each other. What follows an end is another promise's.
select tenant_id, run_id::text as subject, format('%%s after %%s', kind, coalesce(before, 'nothing')) as detail
from (
  select tenant_id, run_id, kind, lag(kind) over (partition by tenant_id, run_id order by event_id) as before
  from everwhen.events
  where kind <> all(%(quiet)s::text[])) e
where not (coalesce(before, '') || '>' || kind = any(%(edges)s::text[])) and coalesce(before, '') <> all(%(ends)s::text[])
limit %(limit)s;

-- name: events_after_the_end
-- An end is final: nothing moves a run after it.
select tenant_id, run_id::text as subject, format('%%s after %%s', kind, before) as detail
from (
  select tenant_id, run_id, kind, lag(kind) over (partition by tenant_id, run_id order by event_id) as before
  from everwhen.events
  where kind <> all(%(quiet)s::text[])) e
where before = any(%(ends)s::text[])
limit %(limit)s;

-- name: claims_after_a_cancel
-- Whoever asked for a cancel and was told that it is noted sees no further attempt.
select c.tenant_id, c.run_id::text as subject, format('attempt %%s was claimed after the cancel was asked for', c.attempt) as detail
from everwhen.events c
join everwhen.events k
  on k.tenant_id = c.tenant_id and k.run_id = c.run_id and k.kind = 'cancel_requested' and k.event_id < c.event_id
where c.kind = 'claimed'
limit %(limit)s;

-- name: attempts_without_a_cause
-- Another attempt has a cause: the one before failed, was lost, ran out of time, or was given back.
select a.tenant_id, a.run_id::text as subject, format('attempt %%s follows one that was %%s', a.attempt, b.outcome) as detail
from (
  select tenant_id, run_id, attempt from everwhen.attempts
  union all select tenant_id, run_id, attempt from everwhen.leases) a
join everwhen.attempts b on b.tenant_id = a.tenant_id and b.run_id = a.run_id and b.attempt = a.attempt - 1
where b.outcome not in ('failed', 'timed_out', 'lost', 'released')
limit %(limit)s;

-- name: times_out_of_order
-- By the database's clock nothing ends before it began.
select tenant_id, run_id::text as subject, format('attempt %%s ended at %%s, before its claim at %%s', attempt, finished_at, claimed_at) as detail
from everwhen.attempts
where finished_at < claimed_at
limit %(limit)s;

-- name: tokens_used_twice
-- Fencing: a token stands for one lease of one run, ever.
select min(tenant_id::text)::uuid as tenant_id, min(run_id::text) as subject,
       format('token %%s stands for %%s leases', lease_token, count(*)) as detail
from (
  select tenant_id, run_id, lease_token from everwhen.attempts
  union all select tenant_id, run_id, lease_token from everwhen.leases) a
group by lease_token
having count(*) > 1
limit %(limit)s;

-- name: refusals_of_a_held_lease
-- Only a stale report is refused as one: the lease that it names was closed before, by the order of events.
select r.tenant_id, r.run_id::text as subject, format('a report under token %%s was refused while it was held', r.token) as detail
from (
  select tenant_id, run_id, event_id, (detail ->> 'lease_token')::bigint as token
  from everwhen.events
  where kind = 'refused' and reason = 'lease.lost' and detail ->> 'lease_token' ~ '^[0-9]{1,18}$') r
left join everwhen.leases l on l.tenant_id = r.tenant_id and l.run_id = r.run_id and l.lease_token = r.token
left join everwhen.attempts a on a.tenant_id = r.tenant_id and a.run_id = r.run_id and a.lease_token = r.token
left join everwhen.events c
  on c.tenant_id = a.tenant_id and c.run_id = a.run_id and c.attempt = a.attempt and c.at = a.finished_at
 and c.kind in ('succeeded', 'dead', 'cancelled', 'retrying', 'released')
where l.run_id is not null or c.event_id > r.event_id
limit %(limit)s;

-- name: runs_of_a_pause
-- A paused schedule intends nothing: no instant of a pause was planned to run, but by a policy after the pause ended. What
-- somebody cancelled before it was due keeps that end.
select r.tenant_id, r.run_id::text as subject,
       format('planned to run at %%s by revision %%s, in the pause of revision %%s', r.nominal_at, r.schedule_revision, p.revision) as detail
from (
  select p.tenant_id, p.uid, p.revision, p.changed_at, n.revision as next_revision, n.changed_at as next_at
  from everwhen.schedule_revisions p
  left join lateral (
    select n.revision, n.changed_at
    from everwhen.schedule_revisions n
    where n.tenant_id = p.tenant_id and n.uid = p.uid and n.revision > p.revision and n.action in ('resumed', 'deleted')
    order by n.revision limit 1) n on true
  where p.action = 'paused') p
join everwhen.runs r on r.tenant_id = p.tenant_id and r.schedule_uid = p.uid and r.source = 'schedule'
left join everwhen.run_ends e on e.tenant_id = r.tenant_id and e.run_id = r.run_id
where r.nominal_at > p.changed_at and r.due_at > p.changed_at and (p.next_at is null or r.nominal_at <= p.next_at)
  and (p.next_revision is null or (r.schedule_revision < p.next_revision and r.planned_at < p.next_at))
  and coalesce(e.state, '') not in ('skipped', 'missed', 'coalesced')
  and not (coalesce(e.state, '') = 'cancelled' and e.finished_at < r.due_at)
limit %(limit)s;

-- name: instants_answered_twice
-- An instant has one answer: no span covers another, nor a run of its schedule.
select s.tenant_id, s.schedule_uid::text as subject, format('the span %%s … %%s covers %%s', s.first_at, s.last_at, o.at) as detail
from everwhen.spans s
join (
  select tenant_id, schedule_uid, nominal_at as at, null::timestamptz as own from everwhen.runs where source = 'schedule'
  union all select tenant_id, schedule_uid, first_at, first_at from everwhen.spans) o
  on o.tenant_id = s.tenant_id and o.schedule_uid = s.schedule_uid
where o.at between s.first_at and s.last_at and o.own is distinct from s.first_at
limit %(limit)s;

-- name: schedules_that_revisions_do_not_tell
-- A schedule is its last revision, and its revisions are numbered 1 to n.
select s.tenant_id, s.uid::text as subject,
       format('revision %%s with %%s revisions recorded, the last numbered %%s', s.revision, r.n, r.last) as detail
from everwhen.schedules s
join (
  select tenant_id, uid, count(*) as n, max(revision) as last
  from everwhen.schedule_revisions group by tenant_id, uid) r on r.tenant_id = s.tenant_id and r.uid = s.uid
left join everwhen.schedule_revisions l on l.tenant_id = s.tenant_id and l.uid = s.uid and l.revision = s.revision
where r.n <> s.revision or r.last <> s.revision
   or (l.task, l.spec, l.input, l.priority, l.tags) is distinct from (s.task, s.spec, s.input, s.priority, s.tags)
limit %(limit)s;

-- name: tags_that_differ
-- What is found by a tag has it, and what has a tag is found by it.
select tenant_id, name as subject,
       format('the %%s %%s the tag %%s', kind, case when is_found then 'is found by and has not' else 'has and is not found by' end,
              tag) as detail
from (
  select coalesce(h.tenant_id, g.tenant_id) as tenant_id, coalesce(h.kind, g.kind) as kind, coalesce(h.name, g.name) as name,
         coalesce(h.tag, g.tag) as tag, h.tag is null as is_found
  from (
    select s.tenant_id, 'schedule' as kind, s.name, t.tag from everwhen.schedules s cross join unnest(s.tags) t (tag)
    where s.state <> 'deleted'
    union all
    select t.tenant_id, 'task', t.name, w.tag from everwhen.tasks t cross join unnest(t.tags) w (tag)
    where t.deleted_at is null
    union all
    select f.tenant_id, 'workflow', f.name, t.tag from everwhen.workflows f cross join unnest(f.tags) t (tag)
    where f.deleted_at is null) h
  full join everwhen.tagged g
    on g.tenant_id = h.tenant_id and g.kind = h.kind and g.name = h.name and g.tag = h.tag
  where h.tag is null or g.tag is null) d
limit %(limit)s;

-- name: leases_nobody_reaped
-- A lease that ran out leads to another attempt or to an end, soon.
select tenant_id, run_id::text as subject, format('attempt %%s ran out at %%s', attempt, lease_until) as detail
from everwhen.leases
where lease_until < %(before)s
limit %(limit)s;

-- name: late_runs_nobody_expired
-- A run past its start deadline ends, soon.
select tenant_id, run_id::text as subject, format('was to be started by %%s', expires_at) as detail
from (
  select tenant_id, run_id, expires_at from everwhen.waiting
  union all select tenant_id, run_id, expires_at from everwhen.held) w
where expires_at < %(before)s
limit %(limit)s;

-- name: live_runs
-- After quiescence every run has ended, or becomes due in the future.
select tenant_id, run_id::text as subject, what as detail
from (
  select tenant_id, run_id, format('has been due since %%s', available_at) as what
  from everwhen.waiting where available_at <= %(now)s
  union all select tenant_id, run_id, format('has been held since %%s', due_at) from everwhen.held where due_at <= %(now)s
  union all select tenant_id, run_id, format('attempt %%s is under way', attempt) from everwhen.leases) l
limit %(limit)s;

-- name: leases_that_count_for_nothing
-- What is in flight of a limited task says what it counts for; what was claimed before there was the limit is made to.
select l.tenant_id, l.run_id::text as subject, format('of task %%s, which is limited, counts for %%s', l.task, coalesce(l.limit_key, 'nothing')) as detail
from everwhen.leases l
join everwhen.task_limits t on t.tenant_id = l.tenant_id and t.task = l.task
where t.adopts_until is null and num_nonnulls(t.max_in_flight, t.rate_tokens, t.key_paths) > 0
  and (l.limit_key is null or (t.key_paths is not null and l.limit_key not like t.key_version || ':%%'))
limit %(limit)s;

-- name: more_in_flight_than_allowed
-- Once a limit has held for a while, no claim goes beyond it. A claim is dated by its beginning; whoever changes a limit
-- waits for it, for as long as anybody waits for a lock. What was in flight when a limit was lowered stays. What the server
-- itself has under way counts for no tenant.
select l.tenant_id, l.subject, format('%%s was claimed as number %%s, %%s may be in flight', l.run_id, l.n, l.most) as detail
from (
  select l.tenant_id, l.task as subject, l.run_id, l.claimed_at, t.max_in_flight::bigint as most, t.updated_at,
         row_number() over (partition by l.tenant_id, l.task order by l.claimed_at, l.lease_token) as n
  from everwhen.leases l
  join everwhen.tasks t on t.tenant_id = l.tenant_id and t.name = l.task
  where t.max_in_flight is not null
  union all
  select l.tenant_id, l.task, l.run_id, l.claimed_at, (t.concurrency ->> 'max_in_flight')::int, t.updated_at,
         row_number() over (partition by l.tenant_id, l.task, l.limit_key order by l.claimed_at, l.lease_token)
  from everwhen.leases l
  join everwhen.tasks t on t.tenant_id = l.tenant_id and t.name = l.task
  where t.concurrency ->> 'max_in_flight' is not null and l.limit_key <> ''
  union all
  select l.tenant_id, 'queue ' || l.queue, l.run_id, l.claimed_at, a.max_in_flight, greatest(q.updated_at, s.changed_at),
         row_number() over (partition by l.tenant_id, l.queue order by l.claimed_at, l.lease_token)
  from everwhen.leases l
  join everwhen.lanes a on a.tenant_id = l.tenant_id and a.queue = l.queue
  left join everwhen.queues q on q.tenant_id = l.tenant_id and q.name = l.queue
  left join everwhen.queue_shares s on s.tenant_id = l.tenant_id and s.queue = l.queue
  where a.max_in_flight is not null
  union all
  select l.tenant_id, 'the tenant', l.run_id, l.claimed_at, t.in_flight, t.changed_at,
         row_number() over (partition by l.tenant_id order by l.claimed_at, l.lease_token)
  from everwhen.leases l
  join everwhen.tenant_limits t on t.tenant_id = l.tenant_id
  where t.in_flight is not null and l.queue not like 'everwhen:%%') l
where l.n > l.most and l.claimed_at > l.updated_at + make_interval(secs => %(settled_seconds)s)
limit %(limit)s;

-- name: more_begun_than_rates_allow
-- Between any two claims, both counted, there are no more than the burst and what came back meanwhile: of each task, key and
-- queue with a rate, since it has held for a while. Of the earlier claims the one that makes it worst is the one whose
-- number is furthest behind what had come back by then.
with rated as materialized (
  select t.tenant_id, t.name as task, null as queue, null::jsonb as key_paths, l.rate_tokens / l.rate_seconds as per_second,
         coalesce(l.rate_burst, l.rate_tokens) as burst, t.updated_at + make_interval(secs => %(settled_seconds)s) as since
  from everwhen.tasks t
  join everwhen.task_limits l on l.tenant_id = t.tenant_id and l.task = t.name
  where l.rate_tokens is not null
  union all
  select t.tenant_id, t.name, null, l.key_paths, l.key_rate_tokens / l.key_rate_seconds,
         coalesce(l.key_rate_burst, l.key_rate_tokens), t.updated_at + make_interval(secs => %(settled_seconds)s)
  from everwhen.tasks t
  join everwhen.task_limits l on l.tenant_id = t.tenant_id and l.task = t.name
  where l.key_rate_tokens is not null
  union all
  select q.tenant_id, null, q.name, null, q.rate_tokens / q.rate_seconds, q.rate_burst,
         q.updated_at + make_interval(secs => %(settled_seconds)s)
  from everwhen.queues q
  where q.rate_tokens is not null and q.deleted_at is null
), begun as (
  select r.*, c.at, case when r.key_paths is not null then (
           select jsonb_agg(u.input #> array(select jsonb_array_elements_text(p.path)) order by p.n)
           from jsonb_array_elements(r.key_paths) with ordinality as p (path, n)) end as key
  from rated r
  join everwhen.runs u on u.tenant_id = r.tenant_id and (u.task = r.task or u.queue = r.queue)
  join (
    select tenant_id, run_id, claimed_at as at from everwhen.attempts
    union all
    select tenant_id, run_id, claimed_at from everwhen.leases) c on c.tenant_id = u.tenant_id and c.run_id = u.run_id
  where c.at > r.since
), counted as (
  select b.*, row_number() over per - b.per_second * extract(epoch from b.at - b.since) as ahead
  from begun b
  window per as (partition by b.tenant_id, b.task, b.queue, b.key order by b.at)
), held as (
  select c.*, c.ahead + 1 - min(c.ahead) over (
           partition by c.tenant_id, c.task, c.queue, c.key order by c.at rows unbounded preceding) as begun
  from counted c
)
select tenant_id, coalesce(task, 'queue ' || queue) as subject,
       format('at %%s there were %%s more than came back, %%s may begin at once', at, round(begun::numeric, 2), burst) as detail
from held
where begun > burst + 0.01
limit %(limit)s;

-- name: runs_parked_for_nothing
-- Nobody is parked while there is room: the task's row says that something is parked, so the backstop looks at it, and what
-- has been due for long either waits for a place that is taken, or was offered one.
select w.tenant_id, w.run_id::text as subject, format('%%s since %%s', w.limit_group, w.available_at) as detail
from everwhen.waiting w
left join everwhen.task_limits t on t.tenant_id = w.tenant_id and t.task = w.task
where w.priority < 0
  and (t.has_parked is not true
       or (w.limit_group = 'parked task' and greatest(w.parked_at, w.available_at) < %(before)s
           and not exists (select from everwhen.waiting o
                           where o.tenant_id = w.tenant_id and o.task = w.task and o.limit_group like 'offered %%')
           and (t.max_in_flight is null or t.max_in_flight > (
             select count(*) from everwhen.leases l
             where l.tenant_id = w.tenant_id and l.task = w.task and l.limit_key is not null))
           and not exists (select from everwhen.leases l
                           where l.tenant_id = w.tenant_id and l.task = w.task and l.claimed_at >= %(before)s)))
limit %(limit)s;

-- name: orphans
-- The history carries no foreign keys (they would lock the run for every event), so this looks instead. The events of a
-- run that was withdrawn before it was due outlive it on purpose.
select o.tenant_id, o.run_id::text as subject, o.what || ' of a run that is not there' as detail
from (
  select tenant_id, run_id, 'an attempt' as what from everwhen.attempts
  union all select tenant_id, run_id, 'an end' from everwhen.run_ends
  union all select tenant_id, run_id, 'a lease' from everwhen.leases
  union all select tenant_id, run_id, 'a place in the line' from everwhen.waiting
  union all select tenant_id, run_id, 'a place behind a gate' from everwhen.held
  union all select tenant_id, run_id, 'a slot of its schedule' from everwhen.admitted
  union all select e.tenant_id, e.run_id, 'an event' from everwhen.events e
  where not exists (select from everwhen.events u
                    where u.tenant_id = e.tenant_id and u.run_id = e.run_id and u.kind = 'unplanned')) o
left join everwhen.runs r on r.tenant_id = o.tenant_id and r.run_id = o.run_id
where r.run_id is null
limit %(limit)s;

-- name: runs_behind_the_watermark
-- The watermark covers every run that its schedule planned: nothing is planned twice after it, and beyond it lies only what
-- it knows to be answered.
select r.tenant_id, r.run_id::text as subject,
       format('planned for %%s, but the schedule is decided only until %%s', r.nominal_at, w.decided_until) as detail
from everwhen.runs r
join everwhen.watermarks w on w.tenant_id = r.tenant_id and w.schedule_uid = r.schedule_uid
where r.source = 'schedule' and r.nominal_at > w.decided_until and r.nominal_at <> all(coalesce(w.answered, '{}'))
limit %(limit)s;

-- name: catch_up_that_does_not_add_up
-- What was missed is what has become of it: the runs and verdicts of a stretch, and the spans, written or still open, are
-- as many as its arrears have counted. What was answered before is not of them.
select a.tenant_id, a.schedule_uid::text as subject,
       format('%%s counted in (%%s, %%s], %%s recorded', a.runs + a.coalesced + a.skipped + a.missed, a.since, a.until,
              r.n + s.n + coalesce((a.open_span ->> 'instants')::bigint, 0)) as detail
from everwhen.arrears a
cross join lateral (
  select count(*) as n from everwhen.runs r
  where r.tenant_id = a.tenant_id and r.schedule_uid = a.schedule_uid and r.source = 'schedule'
    and r.nominal_at > a.since and r.nominal_at <= a.until and r.nominal_at <> all(coalesce(a.answered, '{}'))) r
cross join lateral (
  select coalesce(sum(s.instants), 0) as n from everwhen.spans s
  where s.tenant_id = a.tenant_id and s.schedule_uid = a.schedule_uid and s.first_at > a.since and s.first_at <= a.until) s
where r.n + s.n + coalesce((a.open_span ->> 'instants')::bigint, 0) <> a.runs + a.coalesced + a.skipped + a.missed
limit %(limit)s;

-- name: catch_up_beyond_its_rule
-- Of what was missed no more runs than the rule says: none, one, or a maximum; and where instants were coalesced, one that
-- stands for them.
select a.tenant_id, a.schedule_uid::text as subject,
       format('%%s run in (%%s, %%s] by the rule %%s, %%s coalesced', r.n, a.since, a.until, a.rule, a.coalesced) as detail
from everwhen.arrears a
cross join lateral (
  select count(*) as n, count(r.stands_for) as stands
  from everwhen.runs r
  join everwhen.events e on e.tenant_id = r.tenant_id and e.run_id = r.run_id and e.kind = 'planned'
  where r.tenant_id = a.tenant_id and r.schedule_uid = a.schedule_uid and r.source = 'schedule'
    and r.nominal_at > a.since and r.nominal_at <= a.until and (e.detail ->> 'arrears')::bigint = a.arrears_id) r
where (a.rule ->> 'policy' = 'replay' and r.n > (a.rule ->> 'max_runs')::bigint)
   or (a.rule ->> 'policy' = 'coalesce' and r.n > 1)
   or (a.rule ->> 'policy' = 'coalesce' and a.finished_at is not null and r.stands = 0 and exists (
         select from everwhen.spans s
         where s.tenant_id = a.tenant_id and s.schedule_uid = a.schedule_uid and s.first_at > a.since
           and s.first_at <= a.until and s.reason = 'catchup.coalesced'))
limit %(limit)s;

-- name: arrears_that_overlap
-- An instant belongs to the arrears of one cause, once, and lies behind the watermark.
select a.tenant_id, a.schedule_uid::text as subject,
       case when o.arrears_id is null then format('reach to %%s, the schedule is decided until %%s', a.until, w.decided_until)
            else format('(%%s, %%s] and (%%s, %%s]', a.since, a.until, o.since, o.until) end as detail
from everwhen.arrears a
join everwhen.watermarks w on w.tenant_id = a.tenant_id and w.schedule_uid = a.schedule_uid
left join everwhen.arrears o
  on o.tenant_id = a.tenant_id and o.schedule_uid = a.schedule_uid and o.arrears_id > a.arrears_id
 and o.since < a.until and a.since < o.until
where o.arrears_id is not null or a.until > w.decided_until
limit %(limit)s;

-- name: node_runs_without_a_node
-- A released node has exactly one run, and the run of a node is that of one: neither is without the other.
select coalesce(r.tenant_id, n.tenant_id) as tenant_id, coalesce(r.run_id, n.node_run_id)::text as subject,
       case when n.node_run_id is null then 'a run of a node that is not there' else 'a node released as a run that is not there' end as detail
from (select tenant_id, run_id from everwhen.runs where source = 'workflow') r
full join (select tenant_id, node_run_id from everwhen.workflow_nodes where node_run_id is not null) n
  on n.tenant_id = r.tenant_id and n.node_run_id = r.run_id
where r.run_id is null or n.node_run_id is null
limit %(limit)s;

-- name: nodes_that_differ_from_their_runs
-- A node ends in the transaction that ends its run, and as that has ended. A success may be taken back by what the
-- result says: that the node skipped itself, or a branch that is none.
select n.tenant_id, n.run_id::text as subject,
       format('the node %%s[%%s] is %%s, its run %%s', n.node, n.instance, n.state, coalesce(e.state, 'has not ended')) as detail
from everwhen.workflow_nodes n
left join everwhen.run_ends e on e.tenant_id = n.tenant_id and e.run_id = n.node_run_id
where n.node_run_id is not null and not case
  when e.state is null then n.ended_at is null and n.state = 'waiting'
  when n.ended_at is distinct from e.finished_at then false
  when e.state = 'succeeded' then n.state in ('succeeded', 'skipped', 'failed')
  when e.state = 'dead' then n.state = 'failed'
  when e.state = 'missed' then n.state = 'expired'
  when e.state = 'coalesced' then n.state = 'skipped'
  else n.state = e.state end
limit %(limit)s;

-- name: tallies_that_miscount
-- A node has counted each of its upstreams once, when it ended: a join is neither released by halves nor twice.
with counted as (
  select n.tenant_id, n.run_id, n.node, n.tally,
         array[count(u.*) filter (where u.how = 'succeeded'), count(u.*) filter (where u.how = 'failed'),
               count(u.*) filter (where u.how in ('skipped', 'not_taken')), count(u.*) filter (where u.how = 'upstream_failed'),
               count(u.*) filter (where u.how = 'not_taken')]::int[] as due
  from everwhen.workflow_nodes n
  join everwhen.workflow_runs r on r.tenant_id = n.tenant_id and r.run_id = n.run_id
  join everwhen.workflow_versions v on v.tenant_id = r.tenant_id and v.workflow = r.workflow and v.version = r.version
  join lateral (
    select d.value from jsonb_array_elements(v.definition -> 'nodes') d (value) where d.value ->> 'id' = n.node) d on true
  left join lateral (
    select case when u.state = 'succeeded' and u.taken is not null and n.node <> all(u.taken) then 'not_taken'
                when u.state in ('cancelled', 'expired') then 'failed' else u.state end as how
    from jsonb_array_elements_text(d.value -> 'needs') e (id)
    join everwhen.workflow_nodes u on u.tenant_id = n.tenant_id and u.run_id = n.run_id and u.node = e.id and u.instance = -1
    where u.ended_at is not null) u on true
  where n.instance = -1
  group by n.tenant_id, n.run_id, n.node, n.instance, n.tally
)
select tenant_id, run_id::text as subject, format('the node %%s has counted %%s, its upstreams are %%s', node, tally, due) as detail
from counted
where tally <> due
limit %(limit)s;

-- name: nodes_decided_too_early
-- No node is decided before all of its upstreams have ended, but by a rule that needs only one of them, or by a halt.
select n.tenant_id, n.run_id::text as subject,
       format('the node %%s is %%s after %%s of %%s upstreams', n.node, n.state, n.tally[1] + n.tally[2] + n.tally[3] + n.tally[4],
              jsonb_array_length(d.value -> 'needs')) as detail
from everwhen.workflow_nodes n
join everwhen.workflow_runs r on r.tenant_id = n.tenant_id and r.run_id = n.run_id
join everwhen.workflow_versions v on v.tenant_id = r.tenant_id and v.workflow = r.workflow and v.version = r.version
join lateral (
  select d.value from jsonb_array_elements(v.definition -> 'nodes') d (value) where d.value ->> 'id' = n.node) d on true
where n.instance = -1 and r.halt is null and n.state <> 'blocked'
  and coalesce(d.value ->> 'rule', '') not in ('one_success', 'one_failed', 'one_done')
  and n.tally[1] + n.tally[2] + n.tally[3] + n.tally[4] < jsonb_array_length(d.value -> 'needs')
limit %(limit)s;

-- name: nodes_nobody_decided
-- A node whose upstreams have all ended is decided in the transaction that ends the last of them.
select n.tenant_id, n.run_id::text as subject, format('the node %%s is blocked, and all its upstreams have ended', n.node) as detail
from everwhen.workflow_nodes n
join everwhen.workflow_runs r on r.tenant_id = n.tenant_id and r.run_id = n.run_id
join everwhen.workflow_versions v on v.tenant_id = r.tenant_id and v.workflow = r.workflow and v.version = r.version
join lateral (
  select d.value from jsonb_array_elements(v.definition -> 'nodes') d (value) where d.value ->> 'id' = n.node) d on true
where n.instance = -1 and n.state = 'blocked' and not coalesce((d.value ->> 'finally')::boolean, false)
  and n.tally[1] + n.tally[2] + n.tally[3] + n.tally[4] >= coalesce(jsonb_array_length(d.value -> 'needs'), 0)
limit %(limit)s;

-- name: workflows_that_miscount
-- A workflow's run knows how many of its nodes have ended, and how many of its nodes' runs have not.
select r.tenant_id, r.run_id::text as subject,
       format('it counts %%s ended nodes and %%s live runs; there are %%s and %%s', r.counted, r.live, n.ended, n.live) as detail
from (
  select tenant_id, run_id, live, ordinary[1] + ordinary[2] + ordinary[3] + ordinary[4] + finals[1] + finals[2] + finals[3] + finals[4] as counted
  from everwhen.workflow_runs where started_at is not null) r
join (
  select tenant_id, run_id, count(*) filter (where instance = -1 and ended_at is not null) as ended,
         count(*) filter (where node_run_id is not null and ended_at is null) as live
  from everwhen.workflow_nodes
  group by tenant_id, run_id) n on n.tenant_id = r.tenant_id and n.run_id = r.run_id
where r.counted <> n.ended or r.live <> n.live
limit %(limit)s;

-- name: workflows_ended_otherwise
-- A workflow's run ends if, and only if, all its nodes have ended; until the conductor has done it, it knows that it has to.
select r.tenant_id, r.run_id::text as subject,
       format('%%s nodes are open, the run %%s', n.open, coalesce(e.state, 'has not ended')) as detail
from everwhen.workflow_runs r
join (
  select tenant_id, run_id, count(*) filter (where ended_at is null) as open
  from everwhen.workflow_nodes
  group by tenant_id, run_id) n on n.tenant_id = r.tenant_id and n.run_id = r.run_id
left join everwhen.run_ends e on e.tenant_id = r.tenant_id and e.run_id = r.run_id
where case when e.state is null then r.ended_at is not null or (n.open = 0 and r.look_at is null)
           else n.open > 0 or r.ended_at is null end
limit %(limit)s;

-- name: newest_instant
-- When the data were last written, as far as the history tells: what stands for now in a copy.
select greatest((select max(at) from everwhen.events), (select max(recorded_at) from everwhen.spans),
                (select max(changed_at) from everwhen.schedule_revisions)) as at;

-- name: sample_schedules
-- Some schedules, drawn by a seed, or all of them.
select s.tenant_id, s.uid, s.name, s.state, s.spec::text as spec
from everwhen.schedules s
order by md5(s.uid::text || %(seed)s)
limit %(sample)s;

-- name: read_answers
-- What became of a schedule's instants after `since`, in one snapshot. The id of a run is made of an instant at or after
-- the nominal one, so that one range of ids holds them. From when it was due, or cancelled before, its answer was final.
select greatest(s.created_at, calendar.changed_at + interval '3 hours') as since, w.decided_until, w.tz_version,
       calendar.is_settled,
       coalesce(r.nominals, '{}') as run_nominals, coalesce(r.finals, '{}') as run_finals, coalesce(r.releases, '{}') as run_releases,
       coalesce(p.firsts, '{}') as span_firsts, coalesce(p.lasts, '{}') as span_lasts, coalesce(p.counts, '{}') as span_counts,
       coalesce(v.ats, '{}') as revision_ats, coalesce(v.specs, '{}') as revision_specs,
       coalesce(a.afters, '{}') as apart_afters, coalesce(a.untils, '{}') as apart_untils
from everwhen.schedules s
join everwhen.watermarks w on w.tenant_id = s.tenant_id and w.schedule_uid = s.uid
cross join lateral (
  select max(c.changed_at) as changed_at, not exists (
           select from everwhen.calendar_changes m
           join everwhen.calendar_users u on u.tenant_id = m.tenant_id and u.calendar = m.calendar
           where u.tenant_id = s.tenant_id and u.schedule_uid = s.uid) as is_settled
  from everwhen.calendar_users u
  join everwhen.calendar_versions c on c.tenant_id = u.tenant_id and c.calendar = u.calendar
  where u.tenant_id = s.tenant_id and u.schedule_uid = s.uid) calendar
cross join lateral (
  select array_agg(r.nominal_at order by r.nominal_at) as nominals,
         array_agg(least(r.due_at, e.finished_at) order by r.nominal_at) as finals,
         array_agg(r.tz_version order by r.nominal_at) as releases
  from everwhen.runs r
  left join lateral (
    select e.finished_at from everwhen.run_ends e
    where e.tenant_id = r.tenant_id and e.run_id = r.run_id and e.state = 'cancelled'
    offset 0) e on true
  where r.tenant_id = s.tenant_id and r.schedule_uid = s.uid and r.source = 'schedule'
    and r.run_id >= everwhen.first_run_id(%(after)s) and r.nominal_at > %(after)s) r
cross join lateral (
  select array_agg(p.first_at order by p.first_at) as firsts, array_agg(p.last_at order by p.first_at) as lasts,
         array_agg(p.instants order by p.first_at) as counts
  from everwhen.spans p
  where p.tenant_id = s.tenant_id and p.schedule_uid = s.uid and p.last_at > %(after)s) p
cross join lateral (
  select array_agg(v.changed_at order by v.revision) as ats, array_agg(v.spec::text order by v.revision) as specs
  from everwhen.schedule_revisions v
  where v.tenant_id = s.tenant_id and v.uid = s.uid) v
cross join lateral (
  select array_agg(a.since order by a.since) as afters, array_agg(a.until order by a.since) as untils
  from everwhen.arrears a
  where a.tenant_id = s.tenant_id and a.schedule_uid = s.uid and (a.finished_at is null or a.cause = 'edit')) a
where s.tenant_id = %(tenant_id)s and s.uid = %(uid)s;

-- name: redrives_without_a_dead_origin
-- A redrive is made from a run that is there, of the same task, and dead; its letter says so. Not by when: the transaction
-- that makes it may have begun before the one that it found committed.
select r.tenant_id, r.run_id::text as subject,
       format('a redrive of %%s, which %%s', coalesce(r.origin_run_id::text, 'nothing'),
              case when o.run_id is null then 'is not there'
                   when e.state is distinct from 'dead' then 'was not dead'
                   when o.task <> r.task then 'is of another task'
                   else 'has no letter that was redriven' end) as detail
from everwhen.runs r
left join everwhen.runs o on o.tenant_id = r.tenant_id and o.run_id = r.origin_run_id
left join everwhen.run_ends e on e.tenant_id = r.tenant_id and e.run_id = r.origin_run_id
left join everwhen.dead_letters d on d.tenant_id = r.tenant_id and d.run_id = r.origin_run_id
where r.source = 'redrive'
  and (o.run_id is null or e.state is distinct from 'dead' or o.task <> r.task
       or coalesce(d.redrives, 0) = 0)
limit %(limit)s;

-- name: letters_that_miscount
-- A letter counts the runs that were made from its dead run, and names the last of them.
select d.tenant_id, d.run_id::text as subject,
       format('%%s redrives, and %%s runs were made from it; the last is said to be %%s', d.redrives, count(r.run_id),
              coalesce(d.redriven_as::text, 'none')) as detail
from everwhen.dead_letters d
left join everwhen.runs r on r.tenant_id = d.tenant_id and r.origin_run_id = d.run_id and r.source = 'redrive'
group by d.tenant_id, d.run_id, d.redrives, d.redriven_as
having d.redrives <> count(r.run_id)
    or (d.redrives > 0 and not coalesce(bool_or(r.run_id = d.redriven_as), false))
limit %(limit)s;

-- name: operations_that_miscount
-- The counters of an operation are those of its items, and it made as many runs as it says, each once.
select o.tenant_id, o.id::text as subject,
       format('done %%s, skipped %%s, succeeded %%s, dead %%s, ended %%s of %%s; its items say %%s, %%s, %%s, %%s, %%s of %%s; %%s runs',
              o.done, o.skipped, o.succeeded, o.dead, o.ended, o.total, i.done, i.skipped, i.succeeded, i.dead, i.ended,
              i.total, r.made) as detail
from everwhen.operations o
cross join lateral (
  select count(*) as total, count(*) filter (where i.state not in ('left', 'skipped')) as done,
         count(*) filter (where i.state = 'skipped') as skipped, count(*) filter (where i.state = 'succeeded') as succeeded,
         count(*) filter (where i.state = 'dead') as dead, count(*) filter (where i.state = 'ended') as ended,
         count(distinct coalesce(i.made_run_id::text, i.name)) filter (where i.state not in ('left', 'skipped')) as apart
  from everwhen.operation_items i
  where i.tenant_id = o.tenant_id and i.operation_id = o.id) i
cross join lateral (
  select count(*) as made from everwhen.runs r where r.tenant_id = o.tenant_id and r.operation_id = o.id) r
where (o.done, o.skipped, o.succeeded, o.dead, o.ended) is distinct from
        (i.done, i.skipped, i.succeeded, i.dead, i.ended)
   or i.apart <> i.done
   or (o.total <> i.total and (o.kind <> 'backfill' or o.state in ('running', 'succeeded')))
   or r.made <> case when o.kind in ('redrive', 'backfill') then o.done else 0 end
limit %(limit)s;

-- name: more_running_than_allowed
-- A gate lets no more in than its policy allowed then: at each admission, what it has let in or adopted and has not ended
-- is counted, that run included. An end at the same instant comes before: the two are one transaction. Adopted is what was
-- on its way when the gate was made, however much that was; what was asked for beside the gate is not its business.
select tenant_id, run_id::text as subject,
       format('the schedule %%s had %%s runs that had not ended when this one was let in at %%s, and allowed %%s',
              schedule_uid, depth, at, most) as detail
from (
  select m.*, sum(step) over (
    partition by tenant_id, schedule_uid order by at, step, event_id rows unbounded preceding) as depth
  from (
    select e.tenant_id, r.schedule_uid, e.run_id, e.at, 1 as step, e.event_id, (e.detail ->> 'most_running')::int as most
    from everwhen.events e
    join everwhen.runs r on r.tenant_id = e.tenant_id and r.run_id = e.run_id
    where e.kind in ('admitted', 'adopted')
    union all
    select e.tenant_id, r.schedule_uid, e.run_id, x.finished_at, -1, e.event_id, null
    from everwhen.events e
    join everwhen.runs r on r.tenant_id = e.tenant_id and r.run_id = e.run_id
    join everwhen.run_ends x on x.tenant_id = e.tenant_id and x.run_id = e.run_id
    where e.kind in ('admitted', 'adopted')) m) m
where step = 1 and depth > most
limit %(limit)s;

-- name: slots_that_do_not_fit
-- Whatever a gate has let in and has not ended has a slot, and nothing else has: one too many would keep the next run out
-- for ever, one too few would let it in too early.
select coalesce(a.tenant_id, l.tenant_id) as tenant_id, coalesce(a.run_id, l.run_id)::text as subject,
       case when l.run_id is null then 'has a slot of its schedule, and neither waits nor is leased'
            else 'was let in or adopted, has not ended, and has no slot of its schedule' end as detail
from everwhen.admitted a
full join (
  select l.tenant_id, l.run_id, exists (
           select from everwhen.events e
           where e.tenant_id = l.tenant_id and e.run_id = l.run_id and e.kind in ('admitted', 'adopted')) as was_let_in
  from (select tenant_id, run_id from everwhen.waiting union all select tenant_id, run_id from everwhen.leases) l) l
  on l.tenant_id = a.tenant_id and l.run_id = a.run_id
where l.run_id is null or (a.run_id is null and l.was_let_in)
limit %(limit)s;

-- name: audit_links_that_do_not_hold
-- Each link's hash, from the one before and the record of its event: the chain once more, in another language. A link
-- behind a gap cannot be judged, which audit_chains_that_miscount tells.
select l.tenant_id, format('%%s of the chain', l.seq) as subject,
       case when e.event_id is null then 'its event is not there' else 'its hash is not that of its event here' end as detail
from (
  select l.tenant_id, l.event_id, l.seq, l.epoch, l.hash,
         lag(l.hash) over chain as previous, coalesce(lag(l.seq) over chain, 0) as before
  from everwhen.audit_links l
  window chain as (partition by l.tenant_id order by l.seq, l.epoch, l.event_id)) l
left join everwhen.audit_events e on e.tenant_id = l.tenant_id and e.event_id = l.event_id
where e.event_id is null or (l.seq = l.before + 1 and l.hash <> sha256(
  coalesce(l.previous, sha256('everwhen audit'::bytea || uuid_send(l.tenant_id))) || int8send(l.seq) || uuid_send(l.epoch)
  || int4send(octet_length(convert_to(e.record, 'UTF8'))) || convert_to(e.record, 'UTF8')))
limit %(limit)s;

-- name: audit_chains_that_miscount
-- A chain's places are 1 to n, each once, and its head and its last note say no other.
select coalesce(h.tenant_id, c.tenant_id) as tenant_id, 'chain' as subject,
       format('%%s links up to %%s, the head at %%s, noted up to %%s', coalesce(c.links, 0), coalesce(c.last, 0), h.seq, h.anchored)
         as detail
from everwhen.audit_heads h
full join (
  select l.tenant_id, count(*) as links, count(distinct l.seq) as places, max(l.seq) as last
  from everwhen.audit_links l group by l.tenant_id) c on c.tenant_id = h.tenant_id
where h.tenant_id is null or coalesce(c.links, 0) <> coalesce(c.last, 0) or coalesce(c.places, 0) <> coalesce(c.last, 0)
  or coalesce(c.last, 0) <> h.seq or h.anchored > h.seq or h.fault is not null
  or (h.seq > 0 and not exists (
        select from everwhen.audit_links l where l.tenant_id = h.tenant_id and l.seq = h.seq and l.hash = h.hash))
limit %(limit)s;

-- name: audit_events_without_a_place
-- An event has a link or waits for one, and what waits is there.
select coalesce(e.tenant_id, u.tenant_id) as tenant_id, coalesce(e.event_id, u.event_id)::text as subject,
       case when e.event_id is null then 'waits for its link, and is not there'
            when u.event_id is null then 'has no link, and waits for none'
            else 'has a link, and waits for one' end as detail
from everwhen.audit_events e
full join everwhen.audit_unsealed u on u.tenant_id = e.tenant_id and u.event_id = e.event_id
left join everwhen.audit_links l on l.tenant_id = e.tenant_id and l.event_id = e.event_id
where e.event_id is null or (u.event_id is null) = (l.event_id is null)
limit %(limit)s;

-- name: audit_events_nobody_sealed
select u.tenant_id, u.event_id::text as subject, format('told at %%s', u.at) as detail
from everwhen.audit_unsealed u
where u.at < %(before)s
limit %(limit)s;

-- name: revisions_that_the_audit_does_not_tell
-- Whoever is in a tenant's audit is there with each revision of a schedule from then on: in the transaction that made it,
-- or with an operation of theirs that was under way.
select r.tenant_id, format('schedule %%s, revision %%s', r.uid, r.revision) as subject,
       format('%%s by %%s at %%s, of which the audit tells nothing', r.action, r.changed_by, r.changed_at) as detail
from everwhen.schedule_revisions r
where r.changed_at > (
    select min(e.at) from everwhen.audit_events e
    where e.tenant_id = r.tenant_id and e.actor = r.changed_by and e.outcome = 'done')
  and not exists (
    select from everwhen.audit_events e
    where e.tenant_id = r.tenant_id and e.actor = r.changed_by and e.outcome = 'done' and e.at = r.changed_at)
  and not exists (
    select from everwhen.operations o
    where o.tenant_id = r.tenant_id and o.requested_by = r.changed_by and o.created_at <= r.changed_at
      and coalesce(o.finished_at, 'infinity') >= r.changed_at)
limit %(limit)s;

-- name: days_that_miscount
-- The runs of a day were counted against the tenant's limit, each once: on the day on which it became due, or was made, where
-- it makes up for the past. Which of the two of a run that was planned late is known nowhere, so it may be either. Nodes of
-- workflows are not counted, nor what was never to run. Of days that are over long ago runs may be gone.
with made as (
  select r.tenant_id, d.first, d.other
  from everwhen.runs r
  cross join lateral (
    select ((case when r.operation_id is not null or r.origin_run_id is not null then r.planned_at else r.due_at end)
              at time zone 'UTC')::date as first,
           (greatest(r.due_at, r.planned_at) at time zone 'UTC')::date as other) d
  where r.planned_at >= (select m.applied_at from everwhen.schema_migrations m where m.version = '0091_limits')
    and exists (
      select from everwhen.events e where e.tenant_id = r.tenant_id and e.run_id = r.run_id and e.kind = 'planned')
    and not exists (
      select from everwhen.workflow_nodes n where n.tenant_id = r.tenant_id and n.node_run_id = r.run_id)
)
select coalesce(c.tenant_id, r.tenant_id) as tenant_id, coalesce(c.day, r.day)::text as subject,
       format('%%s runs were counted, and %%s to %%s are there', coalesce(c.runs, 0), coalesce(r.least, 0), coalesce(r.most, 0))
         as detail
from (
  select c.tenant_id, c.day, sum(c.runs) as runs from everwhen.run_counts c
  where c.day >= %(first)s group by c.tenant_id, c.day) c
full join (
  select d.tenant_id, d.day, count(*) filter (where d.is_sure) as least, count(*) as most
  from (
    select m.tenant_id, m.first as day, m.other <= m.first as is_sure from made m
    union all
    select m.tenant_id, m.other, false from made m where m.other > m.first) d
  where d.day >= %(first)s
  group by d.tenant_id, d.day) r on r.tenant_id = c.tenant_id and r.day = c.day
where coalesce(c.runs, 0) not between coalesce(r.least, 0) and coalesce(r.most, 0)
limit %(limit)s;
