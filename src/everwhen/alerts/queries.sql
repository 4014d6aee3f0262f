-- Channels, their receivers and secrets, and subscriptions: what a tenant defines.

-- name: insert_channel
-- Zero rows: the name is taken.
insert into everwhen.alert_channels
  (tenant_id, name, kind, configuration, state, window_seconds, messages_an_hour, quiet, created_by, created_at, updated_at)
values (%(tenant_id)s, %(name)s, %(kind)s, %(configuration)s::jsonb, 'enabled', %(window_seconds)s, %(messages_an_hour)s,
        %(quiet)s::jsonb, %(by)s, %(now)s, %(now)s)
on conflict do nothing;

-- name: update_channel
update everwhen.alert_channels
set configuration = %(configuration)s::jsonb, window_seconds = %(window_seconds)s, messages_an_hour = %(messages_an_hour)s,
    quiet = %(quiet)s::jsonb, revision = revision + 1, updated_at = %(now)s
where tenant_id = %(tenant_id)s and name = %(name)s
  and (%(among)s::int[] is null or revision = any(%(among)s::int[]));

-- name: set_channel_state
-- By a person: the count of what it refused begins anew.
update everwhen.alert_channels
set state = %(state)s, state_reason = %(reason)s, refusals = 0, failures = 0, revision = revision + 1,
    updated_at = %(now)s
where tenant_id = %(tenant_id)s and name = %(name)s
  and (%(among)s::int[] is null or revision = any(%(among)s::int[]));

-- name: lock_channel
select kind, configuration::text as configuration, revision from everwhen.alert_channels
where tenant_id = %(tenant_id)s and name = %(name)s
for update;

-- name: get_channel
select name, kind, configuration::text as configuration, state, state_reason, window_seconds, messages_an_hour,
       quiet::text as quiet, failures, refusals, last_success_at, last_failure_at, last_error, created_by, revision,
       created_at, updated_at
from everwhen.alert_channels
where tenant_id = %(tenant_id)s and name = %(name)s;

-- name: list_channels
select name, kind, configuration::text as configuration, state, state_reason, window_seconds, messages_an_hour,
       quiet::text as quiet, failures, refusals, last_success_at, last_failure_at, last_error, created_by, revision,
       created_at, updated_at
from everwhen.alert_channels
where tenant_id = %(tenant_id)s and name > %(after)s
order by name
limit %(limit)s;

-- name: count_channels
select count(*) as channels from everwhen.alert_channels where tenant_id = %(tenant_id)s;

-- name: delete_channel
-- Its receivers and secrets go with it; its deliveries stay.
delete from everwhen.alert_channels
where tenant_id = %(tenant_id)s and name = %(name)s
  and (%(among)s::int[] is null or revision = any(%(among)s::int[]));

-- name: list_routes
-- Which subscriptions send to a channel.
select subscription from everwhen.alert_routes
where tenant_id = %(tenant_id)s and channel = %(channel)s
order by subscription
limit %(limit)s;

-- name: put_secret
insert into everwhen.alert_secrets (tenant_id, channel, name, sealed)
values (%(tenant_id)s, %(channel)s, %(name)s, %(sealed)s)
on conflict (tenant_id, channel, name) do update set sealed = excluded.sealed;

-- name: delete_secret
delete from everwhen.alert_secrets where tenant_id = %(tenant_id)s and channel = %(channel)s and name = %(name)s;

-- name: list_secrets
select channel, name, sealed from everwhen.alert_secrets
where tenant_id = %(tenant_id)s and channel = any(%(channels)s::text[])
order by channel, name;

-- name: put_outlets
-- The receivers of a channel; those that are there keep what they have proved.
insert into everwhen.alert_outlets (tenant_id, channel, recipient)
select %(tenant_id)s, %(channel)s, recipient from unnest(%(recipients)s::text[]) r (recipient)
on conflict do nothing;

-- name: delete_outlets
-- Those that the channel reaches no longer.
delete from everwhen.alert_outlets
where tenant_id = %(tenant_id)s and channel = %(channel)s and recipient <> all(%(recipients)s::text[]);

-- name: unverify_outlets
-- The channel was changed, so that nobody knows any longer whom it reaches.
update everwhen.alert_outlets
set verified_at = null, tested_by = null, tested_at = null
where tenant_id = %(tenant_id)s and channel = %(channel)s;

-- name: list_outlets
select channel, recipient, verified_at, tested_by, tested_at, wrong_codes, unsubscribed_at
from everwhen.alert_outlets
where tenant_id = %(tenant_id)s and channel = any(%(channels)s::text[])
order by channel, recipient;

-- name: set_tested
update everwhen.alert_outlets
set tested_by = %(delivery_id)s, tested_at = %(now)s, wrong_codes = 0
where tenant_id = %(tenant_id)s and channel = %(channel)s and recipient = %(recipient)s;

-- name: verify_outlet
-- Guarded by the test that it answers. Zero rows: another test was begun since.
update everwhen.alert_outlets
set verified_at = %(now)s, tested_by = null
where tenant_id = %(tenant_id)s and channel = %(channel)s and recipient = %(recipient)s and tested_by = %(delivery_id)s;

-- name: count_wrong_code
-- A guess spoils every code of the channel a little.
update everwhen.alert_outlets
set wrong_codes = wrong_codes + 1
where tenant_id = %(tenant_id)s and channel = %(channel)s and tested_by is not null;

-- name: set_unsubscribed
-- Zero rows: there is no such receiver, or it is so already.
update everwhen.alert_outlets
set unsubscribed_at = case when %(is_unsubscribed)s then %(now)s::timestamptz end
where tenant_id = %(tenant_id)s and channel = %(channel)s and recipient = %(recipient)s
  and (unsubscribed_at is null) = %(is_unsubscribed)s;

-- name: insert_subscription
-- Zero rows: the name is taken.
insert into everwhen.alert_subscriptions
  (tenant_id, name, scope, target, kinds, filter, after_failures, pierces, is_enabled, created_by, created_at, updated_at)
values (%(tenant_id)s, %(name)s, %(scope)s, %(target)s, %(kinds)s, %(filter)s, %(after_failures)s, %(pierces)s, %(is_enabled)s,
        %(by)s, %(now)s, %(now)s)
on conflict do nothing;

-- name: update_subscription
update everwhen.alert_subscriptions
set scope = %(scope)s, target = %(target)s, kinds = %(kinds)s, filter = %(filter)s, after_failures = %(after_failures)s,
    pierces = %(pierces)s, is_enabled = %(is_enabled)s, revision = revision + 1, updated_at = %(now)s
where tenant_id = %(tenant_id)s and name = %(name)s
  and (%(among)s::int[] is null or revision = any(%(among)s::int[]));

-- name: delete_subscription
delete from everwhen.alert_subscriptions
where tenant_id = %(tenant_id)s and name = %(name)s
  and (%(among)s::int[] is null or revision = any(%(among)s::int[]));

-- name: put_listening
-- What the triggers look at, and whose turn the matching takes.
with listener as (
  insert into everwhen.alert_listeners (tenant_id, looked_at) values (%(tenant_id)s, %(now)s)
  on conflict do nothing
), gone as (
  delete from everwhen.subscription_kinds
  where tenant_id = %(tenant_id)s and subscription = %(subscription)s and kind <> all(%(words)s::text[])
)
insert into everwhen.subscription_kinds (tenant_id, kind, subscription)
select %(tenant_id)s, word, %(subscription)s from unnest(%(words)s::text[]) w (word)
on conflict do nothing;

-- name: put_routes
-- Zero rows are written for a channel that is there already; one that does not exist breaks the foreign key.
with gone as (
  delete from everwhen.alert_routes
  where tenant_id = %(tenant_id)s and subscription = %(subscription)s and channel <> all(%(channels)s::text[])
)
insert into everwhen.alert_routes (tenant_id, subscription, channel)
select %(tenant_id)s, %(subscription)s, channel from unnest(%(channels)s::text[]) c (channel)
on conflict do nothing;

-- name: find_channels
-- Those of the names that are channels.
select name from everwhen.alert_channels
where tenant_id = %(tenant_id)s and name = any(%(names)s::text[])
for key share;

-- name: get_subscription
select s.name, s.scope, s.target, s.kinds, s.filter, s.after_failures, s.pierces, s.is_enabled, r.channels, s.created_by,
       s.revision, s.created_at, s.updated_at
from everwhen.alert_subscriptions s
cross join lateral (
  select coalesce(array_agg(r.channel order by r.channel), '{}') as channels
  from everwhen.alert_routes r where r.tenant_id = s.tenant_id and r.subscription = s.name) r
where s.tenant_id = %(tenant_id)s and s.name = %(name)s;

-- name: list_subscriptions
select s.name, s.scope, s.target, s.kinds, s.filter, s.after_failures, s.pierces, s.is_enabled, r.channels, s.created_by,
       s.revision, s.created_at, s.updated_at
from everwhen.alert_subscriptions s
cross join lateral (
  select coalesce(array_agg(r.channel order by r.channel), '{}') as channels
  from everwhen.alert_routes r where r.tenant_id = s.tenant_id and r.subscription = s.name) r
where s.tenant_id = %(tenant_id)s and s.name > %(after)s
order by s.name
limit %(limit)s;

-- name: count_subscriptions
select count(*) as subscriptions from everwhen.alert_subscriptions where tenant_id = %(tenant_id)s;
