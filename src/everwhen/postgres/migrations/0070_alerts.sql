-- Alerts: what happened (signals), who wants to hear of it (subscriptions), and what was sent to them (deliveries).

-- Where messages go. `failures` counts tries in a row that came to nothing, `refusals` those that never will.
create table everwhen.alert_channels (
  tenant_id       uuid not null references everwhen.tenants (id),
  name            text not null check (length(name) between 1 and 200),
  kind            text not null check (length(kind) between 1 and 40),
  configuration   jsonb not null,
  state           text not null check (state in ('enabled', 'disabled')),
  state_reason    text,
  window_seconds  double precision not null check (window_seconds between 0 and 86400),
  messages_an_hour integer check (messages_an_hour between 1 and 36000), -- null: no limit but the window
  quiet           jsonb,
  failures        integer not null default 0,
  refusals        integer not null default 0,
  last_success_at timestamptz,
  last_failure_at timestamptz,
  last_error      text,
  created_by      text not null,
  created_at      timestamptz not null,
  updated_at      timestamptz not null,
  primary key (tenant_id, name)
) with (fillfactor = 80);

-- Sealed by a key that is outside the database.
create table everwhen.alert_secrets (
  tenant_id uuid not null,
  channel   text not null,
  name      text not null check (length(name) between 1 and 100),
  sealed    bytea not null,
  primary key (tenant_id, channel, name),
  foreign key (tenant_id, channel) references everwhen.alert_channels (tenant_id, name) on delete cascade
);

-- Each receiver of a channel: an address, or '' where there is one. Its row is the lock under which messages are folded.
-- `opens_at` is when the next message may leave; `urgent_…` the same for what pierces quiet hours; `allowance` is the
-- theoretical arrival time of the rate limit. `gathering` names the delivery that still takes occasions.
create table everwhen.alert_outlets (
  tenant_id        uuid not null,
  channel          text not null,
  recipient        text not null check (length(recipient) <= 320),
  verified_at      timestamptz,
  tested_by        uuid,        -- the delivery whose code, or whose success, verifies it
  tested_at        timestamptz,
  wrong_codes      integer not null default 0,
  unsubscribed_at  timestamptz,
  opens_at         timestamptz,
  urgent_opens_at  timestamptz,
  allowance        timestamptz,
  gathering        uuid,
  urgent_gathering uuid,
  primary key (tenant_id, channel, recipient),
  foreign key (tenant_id, channel) references everwhen.alert_channels (tenant_id, name) on delete cascade
) with (fillfactor = 70);

-- Who wants to hear of what. `after_failures` in a row; `pierces`: errors come through quiet hours.
create table everwhen.alert_subscriptions (
  tenant_id      uuid not null references everwhen.tenants (id),
  name           text not null check (length(name) between 1 and 200),
  scope          text not null check (scope in ('tenant', 'schedule', 'task', 'workflow')),
  target         text check ((target is null) = (scope = 'tenant')),
  kinds          text[] not null check (cardinality(kinds) between 1 and 40),
  filter         text not null,
  after_failures integer not null check (after_failures between 1 and 50),
  pierces        boolean not null,
  is_enabled     boolean not null,
  created_by     text not null,
  created_at     timestamptz not null,
  updated_at     timestamptz not null,
  primary key (tenant_id, name)
);
create table everwhen.alert_routes (
  tenant_id    uuid not null,
  subscription text not null,
  channel      text not null,
  primary key (tenant_id, subscription, channel),
  foreign key (tenant_id, subscription) references everwhen.alert_subscriptions (tenant_id, name) on delete cascade,
  foreign key (tenant_id, channel) references everwhen.alert_channels (tenant_id, name)
);
create index alert_routes_channel on everwhen.alert_routes (tenant_id, channel);

-- What somebody of a tenant listens for, in the words of the history: all that a trigger looks at.
create table everwhen.subscription_kinds (
  tenant_id    uuid not null,
  kind         text not null,
  subscription text not null,
  primary key (tenant_id, kind, subscription),
  foreign key (tenant_id, subscription) references everwhen.alert_subscriptions (tenant_id, name) on delete cascade
);

-- Tenants that have, or had, subscriptions: whose turn it is. The row is the lock under which a tenant's signals are matched.
create table everwhen.alert_listeners (
  tenant_id uuid primary key references everwhen.tenants (id),
  looked_at timestamptz not null
);

-- What happened and somebody listens for, written by the transaction that made it happen, and gone when it is matched.
create sequence everwhen.alert_signal_ids as bigint;
create table everwhen.alert_signals (
  tenant_id uuid not null,
  signal_id bigint not null default nextval('everwhen.alert_signal_ids'),
  kind      text not null,
  at        timestamptz not null,
  run_id    uuid,
  attempt   smallint,
  subject   text,
  detail    jsonb,
  primary key (tenant_id, signal_id)
);

-- One message to one receiver. `shown` are its first occasions, whole; `total` and `counts` count all of them.
create table everwhen.alert_deliveries (
  tenant_id      uuid not null references everwhen.tenants (id),
  delivery_id    uuid not null,
  channel        text not null,
  recipient      text not null,
  state          text not null check (state in ('gathering', 'sending', 'retrying', 'delivered', 'dead')),
  is_test        boolean not null default false,
  resend_of      uuid,
  subscriptions  jsonb not null,
  total          integer not null check (total > 0),
  counts         jsonb not null,
  shown          jsonb not null,
  window_from    timestamptz not null, -- when the first of its occasions happened, and the last
  window_to      timestamptz not null,
  created_at     timestamptz not null,
  due_at         timestamptz not null, -- when it was to leave at first
  look_at        timestamptz,          -- when it is to be tried, or its lease runs out; null: it has ended
  lease_token    bigint,
  tries          integer not null default 0,
  first_tried_at timestamptz,
  finished_at    timestamptz,
  response       text,
  primary key (tenant_id, delivery_id),
  check ((look_at is null) = (state in ('delivered', 'dead')) and (finished_at is null) = (look_at is not null))
) with (fillfactor = 50);
create index alert_deliveries_look on everwhen.alert_deliveries (look_at) where look_at is not null;
create index alert_deliveries_channel on everwhen.alert_deliveries (tenant_id, channel, delivery_id);
create index alert_deliveries_state on everwhen.alert_deliveries (tenant_id, state, delivery_id);
create index alert_deliveries_finished on everwhen.alert_deliveries (finished_at) where finished_at is not null;
create sequence everwhen.alert_lease_numbers as bigint;

-- Which receiver was told of which occasion, and by which message: never twice.
create table everwhen.alert_told (
  tenant_id   uuid not null,
  channel     text not null,
  recipient   text not null,
  occasion_id uuid not null,
  delivery_id uuid not null,
  kind        text not null,
  primary key (tenant_id, channel, recipient, occasion_id),
  foreign key (tenant_id, delivery_id) references everwhen.alert_deliveries (tenant_id, delivery_id)
    on delete cascade deferrable initially deferred
);
create index alert_told_delivery on everwhen.alert_told (tenant_id, delivery_id);

-- Each try of a delivery: opened when it is taken, closed with what came of it.
create table everwhen.alert_tries (
  tenant_id   uuid not null,
  delivery_id uuid not null,
  try         integer not null,
  began_at    timestamptz not null,
  ended_at    timestamptz,
  outcome     text check (outcome in ('delivered', 'failed', 'refused', 'abandoned')),
  response    text check (length(response) <= 500),
  seconds     double precision,
  primary key (tenant_id, delivery_id, try),
  foreign key (tenant_id, delivery_id) references everwhen.alert_deliveries (tenant_id, delivery_id) on delete cascade,
  check ((ended_at is null) = (outcome is null))
);

-- Signals, in the transaction that causes them. A statement that writes history pays for one look at an empty index, as
-- long as nobody listens. The function runs as whoever writes: it sees, and copies, that role's rows only.
create function everwhen.signal_ends() returns trigger language plpgsql as $$
begin
  if exists (select from everwhen.subscription_kinds) then
    insert into everwhen.alert_signals (tenant_id, kind, at, run_id)
    select e.tenant_id, 'run.' || e.state, e.finished_at, e.run_id
    from written e
    where exists (
      select from everwhen.subscription_kinds k where k.tenant_id = e.tenant_id and k.kind = 'run.' || e.state);
  end if;
  return null;
end $$;
create trigger signal_ends after insert on everwhen.run_ends
  referencing new table as written for each statement execute function everwhen.signal_ends();

create function everwhen.signal_attempts() returns trigger language plpgsql as $$
begin
  if exists (select from everwhen.subscription_kinds k where k.kind = 'attempt.failed') then
    insert into everwhen.alert_signals (tenant_id, kind, at, run_id, attempt)
    select a.tenant_id, 'attempt.failed', a.finished_at, a.run_id, a.attempt
    from written a
    where a.outcome in ('failed', 'timed_out', 'lost') and exists (
      select from everwhen.subscription_kinds k where k.tenant_id = a.tenant_id and k.kind = 'attempt.failed');
  end if;
  return null;
end $$;
create trigger signal_attempts after insert on everwhen.attempts
  referencing new table as written for each statement execute function everwhen.signal_attempts();

create function everwhen.signal_spans() returns trigger language plpgsql as $$
begin
  insert into everwhen.alert_signals (tenant_id, kind, at, subject, detail)
  select p.tenant_id, 'span.' || p.verdict, p.recorded_at, p.schedule_uid::text,
         jsonb_build_object('first_at', p.first_at, 'last_at', p.last_at, 'instants', p.instants, 'reason', p.reason)
  from written p
  where exists (
    select from everwhen.subscription_kinds k where k.tenant_id = p.tenant_id and k.kind = 'span.' || p.verdict);
  return null;
end $$;
create trigger signal_spans after insert on everwhen.spans
  referencing new table as written for each statement execute function everwhen.signal_spans();

create function everwhen.signal_findings() returns trigger language plpgsql as $$
begin
  insert into everwhen.alert_signals (tenant_id, kind, at, subject, detail)
  select f.tenant_id, 'finding.' || f.kind, f.at, f.subject, f.detail || jsonb_build_object('finding_id', f.finding_id)
  from written f
  where f.change = 'opened' and exists (
    select from everwhen.subscription_kinds k where k.tenant_id = f.tenant_id and k.kind = 'finding.' || f.kind);
  return null;
end $$;
create trigger signal_findings after insert on everwhen.finding_events
  referencing new table as written for each statement execute function everwhen.signal_findings();

create function everwhen.signal_pauses() returns trigger language plpgsql as $$
begin
  insert into everwhen.alert_signals (tenant_id, kind, at, subject, detail)
  select r.tenant_id, 'schedule.paused', r.changed_at, r.uid::text,
         jsonb_build_object('revision', r.revision, 'reason', r.reason)
  from written r
  where r.action = 'paused' and r.changed_by = 'everwhen' and exists (
    select from everwhen.subscription_kinds k where k.tenant_id = r.tenant_id and k.kind = 'schedule.paused');
  return null;
end $$;
create trigger signal_pauses after insert on everwhen.schedule_revisions
  referencing new table as written for each statement execute function everwhen.signal_pauses();

do $$
declare t text;
begin
  foreach t in array array['alert_channels', 'alert_secrets', 'alert_outlets', 'alert_subscriptions', 'alert_routes',
                           'subscription_kinds', 'alert_listeners', 'alert_signals', 'alert_deliveries', 'alert_told',
                           'alert_tries'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = (select everwhen.current_tenant())) with check (tenant_id = (select everwhen.current_tenant()))', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
grant select, insert, update, delete on everwhen.alert_channels, everwhen.alert_secrets, everwhen.alert_outlets,
  everwhen.alert_subscriptions, everwhen.alert_routes, everwhen.subscription_kinds to everwhen_tenant;
grant select, insert, update on everwhen.alert_listeners to everwhen_tenant;
grant insert on everwhen.alert_signals to everwhen_tenant;
grant select, insert, update on everwhen.alert_deliveries to everwhen_tenant;
grant select, insert on everwhen.alert_told, everwhen.alert_tries to everwhen_tenant;
grant select, update on everwhen.alert_channels, everwhen.alert_outlets to everwhen_system;
grant select on everwhen.alert_secrets, everwhen.alert_subscriptions, everwhen.alert_routes, everwhen.subscription_kinds
  to everwhen_system;
grant select, insert, update on everwhen.alert_listeners to everwhen_system;
grant select, insert, update, delete on everwhen.alert_signals, everwhen.alert_deliveries, everwhen.alert_told,
  everwhen.alert_tries to everwhen_system;
grant usage on sequence everwhen.alert_signal_ids to everwhen_tenant, everwhen_system;
grant usage on sequence everwhen.alert_lease_numbers to everwhen_tenant, everwhen_system;
