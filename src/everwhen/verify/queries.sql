-- Each statement names a promise and returns what breaks it: no rows when the promise holds.

-- name: occurrences_with_several_runs
-- One intention, one run. The primary key forbids it; this guards against a lost index and a fault in the id itself.
select tenant_id, min(run_id::text) as subject, format('%%s runs for %%s at %%s', count(*), schedule_uid, nominal_at) as detail
from everwhen.runs
where schedule_uid is not null and source <> 'api'
group by tenant_id, schedule_uid, nominal_at, source
having count(*) > 1
limit %(limit)s;

-- name: runs_in_several_places
-- A run waits, or is leased, or has ended: never two of the three.
select r.tenant_id, r.run_id::text as subject,
       concat_ws(' and ', case when w.run_id is not null then 'waits' end, case when l.run_id is not null then 'is leased' end,
                 case when e.run_id is not null then 'has ended' end) as detail
from everwhen.runs r
left join everwhen.waiting w on w.tenant_id = r.tenant_id and w.run_id = r.run_id
left join everwhen.leases l on l.tenant_id = r.tenant_id and l.run_id = r.run_id
left join everwhen.run_ends e on e.tenant_id = r.tenant_id and e.run_id = r.run_id
where num_nonnulls(w.run_id, l.run_id, e.run_id) > 1
limit %(limit)s;

-- name: runs_in_no_place
-- Nothing vanishes: a run that neither waits nor is leased has an end.
select r.tenant_id, r.run_id::text as subject, 'neither waits, nor is leased, nor has ended' as detail
from everwhen.runs r
left join everwhen.waiting w on w.tenant_id = r.tenant_id and w.run_id = r.run_id
left join everwhen.leases l on l.tenant_id = r.tenant_id and l.run_id = r.run_id
left join everwhen.run_ends e on e.tenant_id = r.tenant_id and e.run_id = r.run_id
where num_nonnulls(w.run_id, l.run_id, e.run_id) = 0
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
         coalesce(e.state, case when l.run_id is not null then 'leased' when w.run_id is not null then 'waits' end) as state
  from everwhen.runs r
  left join everwhen.waiting w on w.tenant_id = r.tenant_id and w.run_id = r.run_id
  left join everwhen.leases l on l.tenant_id = r.tenant_id and l.run_id = r.run_id
  left join everwhen.run_ends e on e.tenant_id = r.tenant_id and e.run_id = r.run_id) r
left join (
  select distinct on (tenant_id, run_id) tenant_id, run_id, kind
  from everwhen.events
  where kind not in ('refused', 'cancel_requested', 'rolled')
  order by tenant_id, run_id, event_id desc) h on h.tenant_id = r.tenant_id and h.run_id = r.run_id
where r.state is distinct from
  case when h.kind in ('planned', 'retrying', 'released') then 'waits' when h.kind = 'claimed' then 'leased' else h.kind end
limit %(limit)s;

-- name: claims_that_history_does_not_tell
-- Every attempt was recorded when it was claimed, in the same transaction, and nothing else was.
select coalesce(a.tenant_id, h.tenant_id) as tenant_id, coalesce(a.run_id, h.run_id)::text as subject,
       format('%%s attempts, %%s claims in the history', coalesce(a.n, 0), coalesce(h.n, 0)) as detail
from (
  select tenant_id, run_id, count(*) as n
  from (select tenant_id, run_id from everwhen.attempts union all select tenant_id, run_id from everwhen.leases) opened
  group by tenant_id, run_id) a
full join (
  select tenant_id, run_id, count(*) as n from everwhen.events where kind = 'claimed' group by tenant_id, run_id) h
  on h.tenant_id = a.tenant_id and h.run_id = a.run_id
where coalesce(a.n, 0) <> coalesce(h.n, 0)
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
  union all select e.tenant_id, e.run_id, 'an event' from everwhen.events e
  where not exists (select from everwhen.events u
                    where u.tenant_id = e.tenant_id and u.run_id = e.run_id and u.kind = 'unplanned')) o
left join everwhen.runs r on r.tenant_id = o.tenant_id and r.run_id = o.run_id
where r.run_id is null
limit %(limit)s;

-- name: runs_behind_the_watermark
-- The watermark covers every run that its schedule planned: nothing is planned twice after it, nothing lies beyond it.
select r.tenant_id, r.run_id::text as subject,
       format('planned for %%s, but the schedule is decided only until %%s', r.nominal_at, w.decided_until) as detail
from everwhen.runs r
join everwhen.watermarks w on w.tenant_id = r.tenant_id and w.schedule_uid = r.schedule_uid
where r.source = 'schedule' and least(r.nominal_at, r.due_at) > w.decided_until
limit %(limit)s;
