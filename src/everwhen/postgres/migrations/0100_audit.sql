-- The audit: every change by whom, from where, before and after. Written in the transaction of the change, never changed;
-- chained by hashes a moment later, by the sealer. The nil tenant stands for the platform.

create table everwhen.audit_events (
  tenant_id  uuid not null,
  event_id   uuid not null,
  at         timestamptz not null,
  actor      text not null,
  operation  text not null,
  resource   text not null,
  outcome    text not null check (outcome in ('done', 'refused')),
  request_id text not null,
  record     text not null, -- the whole event as canonical JSON: what is hashed; the columns before it repeat parts of it
  primary key (tenant_id, event_id)
) partition by range (event_id);
create index audit_events_actor on everwhen.audit_events (tenant_id, actor, event_id);
create index audit_events_resource on everwhen.audit_events (tenant_id, resource, event_id);
create index audit_events_operation on everwhen.audit_events (tenant_id, operation, event_id);
create index audit_events_request on everwhen.audit_events (tenant_id, request_id, event_id);

-- An event's place in its tenant's chain. It has the event's id, so it lies in the same partition and goes with it.
create table everwhen.audit_links (
  tenant_id uuid not null,
  event_id  uuid not null,
  seq       bigint not null check (seq > 0),
  epoch     uuid not null,
  hash      bytea not null check (octet_length(hash) = 32),
  primary key (tenant_id, event_id)
) partition by range (event_id);
create index audit_links_seq on everwhen.audit_links (tenant_id, seq);

-- Events that have no link yet: the sealer's hot set.
create table everwhen.audit_unsealed (
  tenant_id uuid not null,
  event_id  uuid not null,
  at        timestamptz not null,
  primary key (tenant_id, event_id)
);

-- Where each chain ends. Its row is the lock under which the chain grows.
create table everwhen.audit_heads (
  tenant_id uuid primary key,
  seq       bigint not null,
  hash      bytea not null check (octet_length(hash) = 32),
  epoch     uuid,
  signed    bigint not null default 0, -- the last place that a checkpoint was signed at
  signed_at timestamptz
);
create index audit_heads_unsigned on everwhen.audit_heads (signed_at nulls first) where seq > signed;

-- One row for each server and each timeline of it that has sealed: a server that was promoted, or restored, is another.
create table everwhen.audit_epochs (
  epoch    uuid primary key,
  server   text not null, -- PostgreSQL's system identifier
  timeline text not null,
  began_at timestamptz not null,
  unique (server, timeline)
);

-- A head, signed by a key that is not in the database.
create table everwhen.audit_checkpoints (
  tenant_id uuid not null,
  seq       bigint not null,
  hash      bytea not null check (octet_length(hash) = 32),
  epoch     uuid not null,
  at        timestamptz not null,
  key_name  text not null check (length(key_name) between 1 and 64),
  signature bytea not null check (octet_length(signature) = 64),
  primary key (tenant_id, seq)
);

-- Checkpoints that are not yet outside of the database.
create table everwhen.audit_unanchored (
  tenant_id uuid not null,
  seq       bigint not null,
  at        timestamptz not null,
  primary key (tenant_id, seq)
);
create index audit_unanchored_at on everwhen.audit_unanchored (at);

-- Append-only for everybody, the owner included: to change it, somebody has to take the trigger away first.
create function everwhen.refuse_change() returns trigger
  language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'the audit is append-only: % of % is refused', lower(tg_op), tg_table_name
    using errcode = 'insufficient_privilege';
end $$;
do $$
declare t text;
begin
  foreach t in array array['audit_events', 'audit_links', 'audit_epochs', 'audit_checkpoints'] loop
    execute format('create trigger append_only before update or delete on everwhen.%I
                    for each row execute function everwhen.refuse_change()', t);
    execute format('create trigger not_truncated before truncate on everwhen.%I
                    for each statement execute function everwhen.refuse_change()', t);
  end loop;
end $$;

-- As everwhen.ensure_week, for the audit: weeks of ids.
create function everwhen.ensure_audit_week(instant timestamptz) returns boolean
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
  monday timestamptz := date_trunc('week', instant at time zone 'UTC') at time zone 'UTC';
  parent text;
  child  text;
begin
  if instant not between clock_timestamp() - interval '11 years' and clock_timestamp() + interval '1 year' then
    raise exception 'no partition for %', instant using errcode = 'invalid_parameter_value';
  end if;
  if to_regclass(format('everwhen.audit_links_%s', to_char(monday at time zone 'UTC', 'YYYYMMDD'))) is not null then
    return false;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('everwhen.ensure_audit_week', 0));
  foreach parent in array array['audit_events', 'audit_links'] loop
    child := format('%s_%s', parent, to_char(monday at time zone 'UTC', 'YYYYMMDD'));
    continue when to_regclass('everwhen.' || child) is not null;
    execute format('create table everwhen.%I (like everwhen.%I including defaults including constraints)', child, parent);
    execute format('alter table everwhen.%I enable row level security, force row level security', child);
    execute format('create trigger not_truncated before truncate on everwhen.%I
                    for each statement execute function everwhen.refuse_change()', child);
    execute format('alter table everwhen.%I attach partition everwhen.%I for values from (%L) to (%L)',
                   parent, child, everwhen.first_run_id(monday), everwhen.first_run_id(monday + interval '168 hours'));
  end loop;
  return true;
end $$;
grant execute on function everwhen.ensure_audit_week(timestamptz) to everwhen_tenant, everwhen_system;

do $$
declare t text;
begin
  foreach t in array array['audit_events', 'audit_links', 'audit_unsealed', 'audit_heads', 'audit_checkpoints',
                           'audit_unanchored'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = (select everwhen.current_tenant()))
                    with check (tenant_id = (select everwhen.current_tenant()))', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
grant select, insert on everwhen.audit_events to everwhen_tenant, everwhen_system;
grant select on everwhen.audit_links, everwhen.audit_heads, everwhen.audit_checkpoints to everwhen_tenant;
grant select, insert on everwhen.audit_links, everwhen.audit_checkpoints, everwhen.audit_epochs to everwhen_system;
grant select, insert, update on everwhen.audit_heads to everwhen_system;
grant insert on everwhen.audit_unsealed to everwhen_tenant;
grant select, insert, update, delete on everwhen.audit_unsealed to everwhen_system;
grant select, insert, update, delete on everwhen.audit_unanchored to everwhen_system;
