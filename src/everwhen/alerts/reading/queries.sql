-- Reads deliveries for people, and what happened for a preview.

-- name: list_deliveries
-- The newest first; ids are ordered by time, so a stretch of time is a stretch of the key.
select delivery_id, channel, recipient, state, is_test, resend_of, subscriptions::text as subscriptions, total,
       counts::text as counts, '[]' as shown, window_from, window_to, created_at, due_at, look_at, tries, finished_at, response
from everwhen.alert_deliveries
where tenant_id = %(tenant_id)s and delivery_id < %(before)s and delivery_id >= %(since)s
order by delivery_id desc
limit %(limit)s;

-- name: list_deliveries_in_state
-- The same along the index of states: what is rare is not searched for among all of them.
select delivery_id, channel, recipient, state, is_test, resend_of, subscriptions::text as subscriptions, total,
       counts::text as counts, '[]' as shown, window_from, window_to, created_at, due_at, look_at, tries, finished_at, response
from everwhen.alert_deliveries
where tenant_id = %(tenant_id)s and state = %(state)s and delivery_id < %(before)s and delivery_id >= %(since)s
order by delivery_id desc
limit %(limit)s;

-- name: get_delivery
select delivery_id, channel, recipient, state, is_test, resend_of, subscriptions::text as subscriptions, total,
       counts::text as counts, shown::text as shown, window_from, window_to, created_at, due_at, look_at, tries, finished_at,
       response
from everwhen.alert_deliveries
where tenant_id = %(tenant_id)s and delivery_id = %(delivery_id)s;

-- name: list_tries
select try as number, began_at, ended_at, outcome, response, seconds
from everwhen.alert_tries
where tenant_id = %(tenant_id)s and delivery_id = %(delivery_id)s
order by try;

-- name: revive
-- A dead delivery is tried again for another hour, under its own id: its receiver may have it, and drops what it has.
update everwhen.alert_deliveries
set state = 'retrying', look_at = %(now)s, finished_at = null, first_tried_at = null
where tenant_id = %(tenant_id)s and delivery_id = %(delivery_id)s and state = 'dead';

-- name: copy_delivered
-- A delivered one is sent once more as another message, or its receiver would drop it.
insert into everwhen.alert_deliveries
  (tenant_id, delivery_id, channel, recipient, state, resend_of, subscriptions, total, counts, shown, window_from, window_to,
   created_at, due_at, look_at)
select tenant_id, %(new_id)s, channel, recipient, 'retrying', delivery_id, subscriptions, total, counts, shown, window_from,
       window_to, %(now)s, %(now)s, %(now)s
from everwhen.alert_deliveries
where tenant_id = %(tenant_id)s and delivery_id = %(delivery_id)s and state = 'delivered' and not is_test;

-- name: find_signals
-- What happened since then, in these words of the history, as the triggers would have copied it: the latest of each kind.
select s.kind, s.at, s.run_id, s.attempt, s.subject, s.detail
from (
  (select 'run.' || e.state as kind, e.finished_at as at, e.run_id, null::smallint as attempt, null as subject,
          null as detail
   from unnest(%(words)s::text[]) w (word)
   cross join lateral (
     select e.state, e.finished_at, e.run_id from everwhen.run_ends e
     where e.tenant_id = %(tenant_id)s and e.state = substr(w.word, 5) and e.state <> 'succeeded'
       and e.run_id >= everwhen.first_run_id(%(since)s)
     order by e.run_id desc
     limit %(limit)s) e
   where w.word like 'run.%%')
  union all
  (select 'run.succeeded', e.finished_at, e.run_id, null, null, null
   from everwhen.run_ends e
   where 'run.succeeded' = any(%(words)s::text[]) and e.tenant_id = %(tenant_id)s and e.state = 'succeeded'
     and e.run_id >= everwhen.first_run_id(%(since)s)
   order by e.run_id desc
   limit %(limit)s)
  union all
  (select 'attempt.failed', a.finished_at, a.run_id, a.attempt, null, null
   from everwhen.attempts a
   where 'attempt.failed' = any(%(words)s::text[]) and a.tenant_id = %(tenant_id)s
     and a.outcome in ('failed', 'timed_out', 'lost') and a.run_id >= everwhen.first_run_id(%(since)s)
   order by a.run_id desc, a.attempt desc
   limit %(limit)s)
  union all
  (select 'finding.' || f.kind, f.at, null, null, f.subject,
          (f.detail || jsonb_build_object('finding_id', f.finding_id))::text
   from everwhen.finding_events f
   where f.tenant_id = %(tenant_id)s and f.change = 'opened' and f.at >= %(since)s
     and ('finding.' || f.kind) = any(%(words)s::text[])
   order by f.event_id desc
   limit %(limit)s)
  union all
  (select 'span.' || p.verdict, p.recorded_at, null, null, p.schedule_uid::text,
          jsonb_build_object('first_at', p.first_at, 'last_at', p.last_at, 'instants', p.instants, 'reason', p.reason)::text
   from everwhen.spans p
   where p.tenant_id = %(tenant_id)s and p.recorded_at >= %(since)s and ('span.' || p.verdict) = any(%(words)s::text[])
   limit %(limit)s)
  union all
  (select 'schedule.paused', r.changed_at, null, null, r.uid::text,
          jsonb_build_object('revision', r.revision, 'reason', r.reason)::text
   from everwhen.schedules s
   join everwhen.schedule_revisions r on r.tenant_id = s.tenant_id and r.uid = s.uid
   where 'schedule.paused' = any(%(words)s::text[]) and s.tenant_id = %(tenant_id)s and s.updated_at >= %(since)s
     and r.action = 'paused' and r.changed_by = 'everwhen' and r.changed_at >= %(since)s
   limit %(limit)s)) s
where s.at >= %(since)s
order by s.at desc
limit %(limit)s;

-- name: find_watched
-- What the watch would have told since then, of the latest so many runs. Late is exact. Overdue are those whose deadline was
-- missed in the end; a zombie is an attempt that went on for as long as one may without a sign of progress, of which the
-- history does not say whether there was one.
with run as materialized (
  select r.tenant_id, r.run_id, r.schedule_uid, greatest(r.due_at, r.planned_at) as due_at
  from everwhen.runs r
  where r.tenant_id = %(tenant_id)s and r.run_id >= everwhen.first_run_id(%(since)s)
    and r.run_id < everwhen.first_run_id(%(now)s)
  order by r.run_id desc
  limit %(walk)s
)
select s.kind, s.at, s.run_id, s.attempt, null as subject, null as detail
from (
  select 'run.late' as kind, r.due_at + o.objective as at, r.run_id, null::smallint as attempt
  from run r
  cross join lateral (
    select make_interval(secs => coalesce((
      select m.objective_seconds from everwhen.measured m
      where m.tenant_id = r.tenant_id and m.schedule_uid = r.schedule_uid), %(objective)s)) as objective) o
  cross join lateral (
    select coalesce(
      (select a.claimed_at from everwhen.attempts a
       where a.tenant_id = r.tenant_id and a.run_id = r.run_id and a.attempt = 1),
      (select l.claimed_at from everwhen.leases l
       where l.tenant_id = r.tenant_id and l.run_id = r.run_id and l.attempt = 1),
      (select e.finished_at from everwhen.run_ends e
       where e.tenant_id = r.tenant_id and e.run_id = r.run_id and e.state = 'expired'),
      (select %(now)s::timestamptz from everwhen.waiting w
       where w.tenant_id = r.tenant_id and w.run_id = r.run_id and w.attempts = 0)) as begun_at) b
  where 'run.late' = any(%(words)s::text[]) and b.begun_at > r.due_at + o.objective
  union all
  select 'run.overdue', e.finished_at, r.run_id, null
  from run r
  cross join lateral (
    select e.finished_at from everwhen.run_ends e
    where e.tenant_id = r.tenant_id and e.run_id = r.run_id and e.state <> 'succeeded' and e.reason = any(%(deadlines)s::text[])
    offset 0) e
  where 'run.overdue' = any(%(words)s::text[])
  union all
  select 'run.zombie', a.claimed_at + p.patience, r.run_id, a.attempt
  from run r
  cross join lateral (
    select a.attempt, a.claimed_at, a.finished_at from everwhen.attempts a
    where a.tenant_id = r.tenant_id and a.run_id = r.run_id and a.finished_at - a.claimed_at > interval '1 minute' offset 0) a
  cross join lateral (
    select greatest(3 * max(h.took), interval '1 minute') as patience, count(*) as successes
    from (
      select a.finished_at - a.claimed_at as took
      from (
        select h.run_id from everwhen.runs h
        where h.tenant_id = r.tenant_id and h.schedule_uid is not null and h.schedule_uid = r.schedule_uid
          and h.run_id < r.run_id
        order by h.run_id desc
        limit 100) h
      cross join lateral (
        select a.finished_at, a.claimed_at from everwhen.attempts a
        where a.tenant_id = r.tenant_id and a.run_id = h.run_id and a.outcome = 'succeeded' offset 0) a
      order by h.run_id desc
      limit 20) h) p
  where 'run.zombie' = any(%(words)s::text[]) and p.successes >= 5 and a.claimed_at + p.patience < a.finished_at) s
where s.at >= %(since)s
order by s.at desc
limit %(limit)s;
