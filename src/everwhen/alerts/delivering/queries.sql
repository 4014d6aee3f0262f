-- Takes deliveries that are due, and writes down what came of them.

-- name: claim_due
-- Due deliveries, and those whose notifier is gone, the oldest first: at most so many of one channel and of one tenant, and
-- none of those that are at their limit already, so that a receiver that hangs holds back its own channel only. The row
-- is locked just long enough to be marked; whoever gathers into it meanwhile is waited for by nobody.
with candidate as materialized (
  select d.ctid as place, d.tenant_id, d.channel, d.look_at
  from everwhen.alert_deliveries d
  where d.look_at <= %(now)s
    and d.tenant_id <> all(%(busy_tenants)s::uuid[])
    and (d.tenant_id || '/' || d.channel) <> all(%(busy_channels)s::text[])
  order by d.look_at
  limit %(look)s
  for update skip locked
), ranked as (
  select c.place, c.look_at, row_number() over (partition by c.tenant_id order by c.look_at) as in_tenant,
         row_number() over (partition by c.tenant_id, c.channel order by c.look_at) as in_channel
  from candidate c
), picked as materialized (
  select place from ranked
  where in_tenant <= %(per_tenant)s and in_channel <= %(per_channel)s
  order by look_at
  limit %(limit)s
), taken as (
  update everwhen.alert_deliveries d
  set state = 'sending', tries = d.tries + 1, lease_token = nextval('everwhen.alert_lease_numbers'),
      first_tried_at = coalesce(d.first_tried_at, %(now)s),
      look_at = %(now)s + make_interval(secs => %(lease_seconds)s)
  from picked p
  where d.ctid = p.place
  returning d.*
), abandoned as (
  -- A try that nobody closed: its notifier died between sending and writing, or before sending.
  update everwhen.alert_tries t
  set outcome = 'abandoned', ended_at = %(now)s
  from taken d
  where t.tenant_id = d.tenant_id and t.delivery_id = d.delivery_id and t.ended_at is null
), begun as (
  insert into everwhen.alert_tries (tenant_id, delivery_id, try, began_at, notifier)
  select tenant_id, delivery_id, tries, %(now)s, %(notifier)s from taken
)
select d.tenant_id, t.name as tenant, d.delivery_id, d.channel, d.recipient, d.is_test, d.subscriptions::text as subscriptions,
       d.total, d.counts::text as counts, d.shown::text as shown, d.window_from, d.window_to, d.tries, d.first_tried_at,
       d.lease_token, c.kind, c.configuration, c.state as channel_state, c.state_reason, o.tenant_id is not null as is_known,
       o.verified_at is not null as is_verified, o.unsubscribed_at is not null as is_unsubscribed
from taken d
cross join lateral (select t.name from everwhen.tenants t where t.id = d.tenant_id offset 0) t
left join lateral (
  select c.kind, c.configuration::text as configuration, c.state, c.state_reason from everwhen.alert_channels c
  where c.tenant_id = d.tenant_id and c.name = d.channel offset 0) c on true
left join lateral (
  select o.* from everwhen.alert_outlets o
  where o.tenant_id = d.tenant_id and o.channel = d.channel and o.recipient = d.recipient offset 0) o on true;

-- name: next_look
-- When the next delivery is due.
select look_at from everwhen.alert_deliveries where look_at is not null order by look_at limit 1;

-- name: read_secrets
select s.tenant_id, s.channel, s.name, s.sealed
from unnest(%(tenant_ids)s::uuid[], %(channels)s::text[]) q (tenant_id, channel)
cross join lateral (
  select s.* from everwhen.alert_secrets s where s.tenant_id = q.tenant_id and s.channel = q.channel offset 0) s;

-- name: settle
-- What has become of a delivery, and of the try. Guarded by the lease: zero rows, somebody else has it by now.
with settled as (
  update everwhen.alert_deliveries d
  set state = %(state)s, look_at = %(look_at)s, response = %(response)s, lease_token = null,
      finished_at = case when %(look_at)s::timestamptz is null then %(now)s::timestamptz end
  where d.tenant_id = %(tenant_id)s and d.delivery_id = %(delivery_id)s and d.state = 'sending'
    and d.lease_token = %(lease_token)s
  returning d.tries
)
update everwhen.alert_tries t
set outcome = %(outcome)s, response = %(response)s, ended_at = %(now)s, seconds = %(seconds)s
from settled
where t.tenant_id = %(tenant_id)s and t.delivery_id = %(delivery_id)s and t.try = settled.tries;

-- name: channel_succeeded
update everwhen.alert_channels
set failures = 0, refusals = 0, last_success_at = %(now)s
where tenant_id = %(tenant_id)s and name = %(channel)s;

-- name: channel_failed
-- A channel that only refuses is disabled, with the reason; one that is away or slow is not.
update everwhen.alert_channels
set failures = failures + 1, last_failure_at = %(now)s, last_error = %(error)s,
    refusals = case when %(is_refusal)s then refusals + 1 else refusals end,
    state = case when %(is_refusal)s and refusals + 1 >= %(most_refusals)s then 'disabled' else state end,
    state_reason = case when %(is_refusal)s and refusals + 1 >= %(most_refusals)s and state = 'enabled'
                        then 'it refused ' || (refusals + 1) || ' messages in a row, the last with: ' || %(error)s
                        else state_reason end
where tenant_id = %(tenant_id)s and name = %(channel)s
returning state, refusals;

-- name: verify_by_test
-- A test that arrived proves a channel with one receiver: whoever reads there gave its address or its secret away.
update everwhen.alert_outlets
set verified_at = %(now)s, tested_by = null
where tenant_id = %(tenant_id)s and channel = %(channel)s and recipient = '' and tested_by = %(delivery_id)s;

-- name: insert_test
-- A message that is due at once, tells of one occasion, and belongs to nothing that gathers.
insert into everwhen.alert_deliveries
  (tenant_id, delivery_id, channel, recipient, state, is_test, subscriptions, total, counts, shown, window_from, window_to,
   created_at, due_at, look_at)
values (%(tenant_id)s, %(delivery_id)s, %(channel)s, %(recipient)s, 'retrying', true, '[]', 1, %(counts)s::jsonb,
        %(shown)s::jsonb, %(now)s, %(now)s, %(now)s, %(now)s, %(now)s);

-- name: delete_old
-- What ended before then, with its tries and whom it told of what; so many at a time.
with old as materialized (
  select d.ctid as place from everwhen.alert_deliveries d
  where d.finished_at is not null and d.finished_at < %(before)s
  order by d.finished_at
  limit %(limit)s
  for update skip locked
)
delete from everwhen.alert_deliveries d using old where d.ctid = old.place;

-- name: read_backlog
select count(*) as pending, min(due_at) filter (where due_at <= %(now)s) as oldest_due_at
from everwhen.alert_deliveries where look_at is not null;
