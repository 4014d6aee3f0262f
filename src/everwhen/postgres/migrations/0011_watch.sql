-- Noticing what is late or stands still: findings with their history, and how punctual each schedule is.

-- What is amiss, from when to when. One row is open for each tenant, kind and subject; a closed one is never touched again.
create sequence everwhen.finding_ids as bigint;
create table everwhen.findings (
  tenant_id  uuid not null references everwhen.tenants (id),
  finding_id bigint not null default nextval('everwhen.finding_ids'),
  kind       text not null,
  subject    text not null check (length(subject) between 1 and 200), -- the schedule's name, or the queue
  since      timestamptz not null, -- when it began, by the facts
  opened_at  timestamptz not null, -- when it was noticed
  seen_at    timestamptz not null, -- when it was seen last
  closed_at  timestamptz,          -- null: it goes on
  detail     jsonb not null,
  primary key (tenant_id, finding_id)
) with (fillfactor = 70);
create unique index findings_open on everwhen.findings (tenant_id, kind, subject) where closed_at is null;
create index findings_open_kind on everwhen.findings (kind, tenant_id, finding_id) where closed_at is null;

-- Each opening and each closing, in order: what an alert can follow.
create sequence everwhen.finding_event_ids as bigint;
create table everwhen.finding_events (
  tenant_id  uuid not null references everwhen.tenants (id),
  event_id   bigint not null default nextval('everwhen.finding_event_ids'),
  finding_id bigint not null,
  at         timestamptz not null,
  change     text not null check (change in ('opened', 'closed')),
  kind       text not null,
  subject    text not null,
  detail     jsonb not null,
  primary key (tenant_id, event_id)
);

-- How late the runs of a schedule started, a day a row. `buckets` counts by the bounds of core/punctuality.py, the last
-- one what never started.
create table everwhen.punctuality (
  tenant_id    uuid not null,
  schedule_uid uuid not null,
  day          date not null, -- UTC, of the due instant
  on_time      bigint not null,
  late         bigint not null,
  buckets      bigint[] not null,
  primary key (tenant_id, schedule_uid, day),
  foreign key (tenant_id, schedule_uid) references everwhen.schedules (tenant_id, uid)
);
create table everwhen.measured (
  tenant_id      uuid not null,
  schedule_uid   uuid not null,
  measured_until timestamptz not null, -- runs due by then are counted
  objective_seconds double precision check (objective_seconds > 0 and objective_seconds <= 86400), -- null: the default
  primary key (tenant_id, schedule_uid),
  foreign key (tenant_id, schedule_uid) references everwhen.schedules (tenant_id, uid)
);

-- One row, whose lock lets one sentinel work at a time.
create table everwhen.sentinels (only_one boolean primary key default true check (only_one));
insert into everwhen.sentinels default values;

create index watermarks_failing on everwhen.watermarks (tenant_id, schedule_uid) where failures > 0;

do $$
declare t text;
begin
  foreach t in array array['findings', 'finding_events', 'punctuality', 'measured'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = everwhen.current_tenant()) with check (tenant_id = everwhen.current_tenant())', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
grant select on everwhen.findings, everwhen.finding_events, everwhen.punctuality to everwhen_tenant;
grant select, insert, update on everwhen.measured to everwhen_tenant;
grant select, insert, update on everwhen.findings, everwhen.punctuality, everwhen.measured to everwhen_system;
grant select, insert on everwhen.finding_events to everwhen_system;
grant select, update on everwhen.sentinels to everwhen_system;
grant usage on sequence everwhen.finding_ids, everwhen.finding_event_ids to everwhen_system;
