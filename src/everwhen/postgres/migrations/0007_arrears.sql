-- Arrears: stretches of a schedule's past whose instants passed undecided, worked off apart from what is live.

-- What a coalesced run stands for: how many instants, the first, the last, and some of them. Null for every other run.
alter table everwhen.runs add column stands_for jsonb;

create sequence everwhen.arrears_ids as bigint;
create table everwhen.arrears (
  tenant_id     uuid not null,
  schedule_uid  uuid not null,
  arrears_id    bigint not null default nextval('everwhen.arrears_ids'),
  cause         text not null check (cause in ('outage', 'resume', 'creation', 'edit')),
  revision      integer not null, -- by whose trigger its instants are told, and what its runs are to do
  rule          jsonb, -- null: decided when the schedule is resumed
  skip_reason   text not null, -- why an instant that the rule skips does not run
  since         timestamptz not null, -- the stretch: later than this,
  until         timestamptz not null check (until > since), -- up to and with this
  as_of         timestamptz not null, -- ages are measured from here
  late_before   timestamptz not null, -- what is due before this is late
  rest_after    timestamptz not null, -- what is left of the stretch
  rest_until    timestamptz not null,
  begun         boolean not null default false, -- whether it is fixed which instants run
  first_run     timestamptz, -- those between the two; null: none
  last_run      timestamptz,
  open_span     jsonb, -- neighbours with one verdict that are counted and not written yet
  paced_until   timestamptz, -- the latest turn that a paced run was given
  runs          bigint not null default 0,
  coalesced     bigint not null default 0,
  skipped       bigint not null default 0,
  missed        bigint not null default 0,
  failures      integer not null default 0,
  last_error    text,
  look_at       timestamptz, -- when it is to be worked on; null: finished, or held by a pause
  finished_at   timestamptz,
  primary key (tenant_id, schedule_uid, arrears_id),
  foreign key (tenant_id, schedule_uid, revision) references everwhen.schedule_revisions (tenant_id, uid, revision)
);
create index arrears_look on everwhen.arrears (look_at) where look_at is not null;

alter table everwhen.arrears enable row level security, force row level security;
create policy own_rows on everwhen.arrears to everwhen_tenant
  using (tenant_id = everwhen.current_tenant()) with check (tenant_id = everwhen.current_tenant());
create policy all_tenants on everwhen.arrears to everwhen_system using (true) with check (true);
grant select, insert, update on everwhen.arrears to everwhen_tenant, everwhen_system;
grant usage on sequence everwhen.arrears_ids to everwhen_tenant, everwhen_system;
