-- Takes signals, reads what they are about, and gathers messages. Everything for many tenants at once; look-ups by key
-- stand behind OFFSET 0 (see dispatch/queries.sql).

-- name: take_turns
-- Tenants with signals, those first whose turn is the longest ago. One matching works for a tenant at a time, so that its
-- signals are matched in order; SKIP LOCKED lets others work for other tenants.
select l.tenant_id, t.name
from (
  select l.tenant_id from everwhen.alert_listeners l
  where exists (select from everwhen.alert_signals s where s.tenant_id = l.tenant_id)
  order by l.looked_at
  limit %(limit)s
  for update of l skip locked) l
cross join lateral (select t.name from everwhen.tenants t where t.id = l.tenant_id offset 0) t;

-- name: end_turns
update everwhen.alert_listeners set looked_at = %(now)s where tenant_id = any(%(tenant_ids)s::uuid[]);

-- name: take_signals
-- So many of each tenant, the oldest first, and gone with this transaction.
with next as materialized (
  select s.place
  from unnest(%(tenant_ids)s::uuid[]) t (tenant_id)
  cross join lateral (
    select s.ctid as place from everwhen.alert_signals s
    where s.tenant_id = t.tenant_id
    order by s.signal_id
    limit %(limit)s
    for update skip locked) s
)
delete from everwhen.alert_signals s
using next
where s.ctid = next.place
returning s.tenant_id, s.signal_id, s.kind, s.at, s.run_id, s.attempt, s.subject, s.detail::text as detail;

-- name: list_rules
-- The subscriptions of these tenants that are in force and send to somewhere.
select s.tenant_id, s.name, s.scope, s.target, s.kinds, s.filter, s.after_failures, s.pierces, r.channels
from unnest(%(tenant_ids)s::uuid[]) t (tenant_id)
cross join lateral (
  select s.* from everwhen.alert_subscriptions s where s.tenant_id = t.tenant_id and s.is_enabled offset 0) s
cross join lateral (
  select array_agg(r.channel order by r.channel) as channels
  from everwhen.alert_routes r where r.tenant_id = s.tenant_id and r.subscription = s.name) r
where r.channels is not null
order by s.tenant_id, s.name;

-- name: read_runs
-- What is told of runs. The error is that of the attempt that is named, or of the last one.
select q.tenant_id, q.run_id, r.task, r.queue, r.source, r.nominal_at, r.due_at, r.schedule_uid, s.name as schedule, s.zone,
       w.workflow, coalesce(e.reason, a.reason) as reason, e.attempts, t.most_attempts,
       coalesce(e.fingerprint, a.fingerprint) as fingerprint, a.error,
       coalesce(s.tags || t.tags || f.tags, '{}') as tags
from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[], %(attempts)s::int[]) q (tenant_id, run_id, attempt)
cross join lateral (
  select r.* from everwhen.runs r where r.tenant_id = q.tenant_id and r.run_id = q.run_id offset 0) r
left join lateral (
  select s.name, s.spec ->> 'timezone' as zone, s.tags from everwhen.schedules s
  where s.tenant_id = q.tenant_id and s.uid = r.schedule_uid offset 0) s on true
left join lateral (
  select w.workflow
  from everwhen.workflow_nodes n
  join everwhen.workflow_runs w on w.tenant_id = n.tenant_id and w.run_id = n.run_id
  where n.tenant_id = q.tenant_id and n.node_run_id is not null and n.node_run_id = q.run_id
  limit 1 offset 0) w on true
left join lateral (
  select e.reason, e.attempts, e.fingerprint from everwhen.run_ends e
  where e.tenant_id = q.tenant_id and e.run_id = q.run_id offset 0) e on true
left join lateral (
  select a.reason, a.fingerprint, left(concat_ws(': ', a.error ->> 'type', a.error ->> 'message'), %(most_error)s) as error
  from everwhen.attempts a
  where a.tenant_id = q.tenant_id and a.run_id = q.run_id and a.attempt = coalesce(q.attempt, e.attempts) offset 0) a on true
left join lateral (
  select case when t.retry ->> 'max_attempts' ~ '^[1-9][0-9]{0,3}$' then (t.retry ->> 'max_attempts')::int end as most_attempts,
         t.tags
  from everwhen.tasks t where t.tenant_id = q.tenant_id and t.name = r.task offset 0) t on true
left join lateral (
  select f.tags from everwhen.workflows f
  where f.tenant_id = q.tenant_id
    and f.name = case when r.task like 'workflow:%%' then substr(r.task, 10) else w.workflow end offset 0) f on true;

-- name: read_past
-- How the runs of the same schedule before these ended, the latest first: of the last so many, those that say something.
select q.tenant_id, q.run_id as before_run_id, p.run_id, p.state, p.finished_at
from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[], %(schedule_uids)s::uuid[]) q (tenant_id, run_id, schedule_uid)
cross join lateral (
  select r.run_id, e.state, e.finished_at
  from (
    select r.run_id from everwhen.runs r
    where r.tenant_id = q.tenant_id and r.schedule_uid is not null and r.schedule_uid = q.schedule_uid and r.run_id < q.run_id
    order by r.run_id desc
    limit %(walk)s) r
  cross join lateral (
    select e.state, e.finished_at from everwhen.run_ends e
    where e.tenant_id = q.tenant_id and e.run_id = r.run_id and e.state in ('succeeded', 'dead', 'expired') offset 0) e
  order by r.run_id desc
  limit %(limit)s) p
order by q.tenant_id, q.run_id, p.run_id desc;

-- name: read_past_of_tasks
-- The same for runs that nobody scheduled: those of the same task among the tenant's latest before them. No index serves
-- more, and one would cost every run.
select q.tenant_id, q.run_id as before_run_id, p.run_id, p.state, p.finished_at
from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[], %(tasks)s::text[]) q (tenant_id, run_id, task)
cross join lateral (
  select r.run_id, e.state, e.finished_at
  from (
    select r.run_id, r.task, r.schedule_uid from everwhen.runs r
    where r.tenant_id = q.tenant_id and r.run_id < q.run_id
    order by r.run_id desc
    limit %(walk)s) r
  cross join lateral (
    select e.state, e.finished_at from everwhen.run_ends e
    where e.tenant_id = q.tenant_id and e.run_id = r.run_id and e.state in ('succeeded', 'dead', 'expired') offset 0) e
  where r.task = q.task and r.schedule_uid is null
  order by r.run_id desc
  limit %(limit)s) p
order by q.tenant_id, q.run_id, p.run_id desc;

-- name: read_schedules
select q.tenant_id, q.uid, s.name, s.task, s.zone, coalesce(s.tags || t.tags || f.tags, '{}') as tags
from unnest(%(tenant_ids)s::uuid[], %(uids)s::uuid[]) q (tenant_id, uid)
cross join lateral (
  select s.name, s.task, s.spec ->> 'timezone' as zone, s.tags from everwhen.schedules s
  where s.tenant_id = q.tenant_id and s.uid = q.uid offset 0) s
left join lateral (
  select t.tags from everwhen.tasks t where t.tenant_id = q.tenant_id and t.name = s.task offset 0) t on true
left join lateral (
  select f.tags from everwhen.workflows f
  where f.tenant_id = q.tenant_id and s.task like 'workflow:%%' and f.name = substr(s.task, 10) offset 0) f on true;

-- name: lock_outlets
-- Every receiver of these channels who has not unsubscribed, in the order of the key. Whoever gathers for one holds it.
select o.tenant_id, o.channel, o.recipient, o.opens_at, o.urgent_opens_at, o.allowance, o.gathering, o.urgent_gathering,
       c.window_seconds, c.messages_an_hour, c.quiet::text as quiet
from unnest(%(tenant_ids)s::uuid[], %(channels)s::text[]) q (tenant_id, channel)
join everwhen.alert_channels c on c.tenant_id = q.tenant_id and c.name = q.channel
join everwhen.alert_outlets o on o.tenant_id = q.tenant_id and o.channel = q.channel
where o.unsubscribed_at is null
order by o.tenant_id, o.channel, o.recipient
for update of o;

-- name: lock_gathering
-- Those of the messages that still take occasions: one that a notifier has taken by now does not.
select d.tenant_id, d.delivery_id, d.subscriptions::text as subscriptions, d.total, d.counts::text as counts,
       d.shown::text as shown, d.window_from, d.window_to
from unnest(%(tenant_ids)s::uuid[], %(delivery_ids)s::uuid[]) q (tenant_id, delivery_id)
join everwhen.alert_deliveries d on d.tenant_id = q.tenant_id and d.delivery_id = q.delivery_id
where d.state = 'gathering'
order by d.tenant_id, d.delivery_id
for update of d;

-- name: insert_told
-- The guard: whoever was told of an occasion is not told again.
insert into everwhen.alert_told (tenant_id, channel, recipient, occasion_id, delivery_id, kind)
select * from unnest(%(tenant_ids)s::uuid[], %(channels)s::text[], %(recipients)s::text[], %(occasion_ids)s::uuid[],
                     %(delivery_ids)s::uuid[], %(kinds)s::text[])
on conflict do nothing
returning tenant_id, channel, recipient, occasion_id, delivery_id;

-- name: insert_gathering
insert into everwhen.alert_deliveries
  (tenant_id, delivery_id, channel, recipient, state, subscriptions, total, counts, shown, window_from, window_to, created_at,
   due_at, look_at)
select tenant_id, delivery_id, channel, recipient, 'gathering', subscriptions::jsonb, total, counts::jsonb, shown::jsonb,
       window_from, window_to, %(now)s, due_at, due_at
from unnest(%(tenant_ids)s::uuid[], %(delivery_ids)s::uuid[], %(channels)s::text[], %(recipients)s::text[],
            %(subscriptions)s::text[], %(totals)s::int[], %(counts)s::text[], %(shown)s::text[],
            %(window_froms)s::timestamptz[], %(window_tos)s::timestamptz[], %(due_ats)s::timestamptz[])
       as d (tenant_id, delivery_id, channel, recipient, subscriptions, total, counts, shown, window_from, window_to, due_at);

-- name: add_to_gathering
-- They are locked by the same transaction.
update everwhen.alert_deliveries d
set subscriptions = n.subscriptions::jsonb, total = n.total, counts = n.counts::jsonb, shown = n.shown::jsonb,
    window_from = n.window_from, window_to = n.window_to
from unnest(%(tenant_ids)s::uuid[], %(delivery_ids)s::uuid[], %(subscriptions)s::text[], %(totals)s::int[], %(counts)s::text[],
            %(shown)s::text[], %(window_froms)s::timestamptz[], %(window_tos)s::timestamptz[])
       as n (tenant_id, delivery_id, subscriptions, total, counts, shown, window_from, window_to)
where d.tenant_id = n.tenant_id and d.delivery_id = n.delivery_id and d.state = 'gathering';

-- name: set_paces
-- What gathers for a receiver now, and when the next message may leave. They are locked by the same transaction.
update everwhen.alert_outlets o
set opens_at = n.opens_at, urgent_opens_at = n.urgent_opens_at, allowance = n.allowance, gathering = n.gathering,
    urgent_gathering = n.urgent_gathering
from unnest(%(tenant_ids)s::uuid[], %(channels)s::text[], %(recipients)s::text[], %(opens_ats)s::timestamptz[],
            %(urgent_opens_ats)s::timestamptz[], %(allowances)s::timestamptz[], %(gatherings)s::uuid[],
            %(urgent_gatherings)s::uuid[])
       as n (tenant_id, channel, recipient, opens_at, urgent_opens_at, allowance, gathering, urgent_gathering)
where o.tenant_id = n.tenant_id and o.channel = n.channel and o.recipient = n.recipient;
