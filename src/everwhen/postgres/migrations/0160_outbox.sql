-- Dispatch by a broker. The line (`waiting`) says what has to be announced; here stands what was: one row for each run that
-- a relay has told its broker of and that nobody is known to have taken. See dispatch/brokers/relay.py.

create table everwhen.outbox (
  tenant_id    uuid not null,
  run_id       uuid not null,
  queue        text not null,
  broker       text not null,
  attempt      integer not null,
  told_at      timestamptz not null, -- with run and attempt the message's id
  published_at timestamptz,          -- when the broker said that it has it; null: that is not known
  look_at      timestamptz not null, -- if the run still waits then, it is told again
  tellings     integer not null default 1,
  primary key (tenant_id, run_id)
) with (fillfactor = 70);
create index outbox_look on everwhen.outbox (broker, look_at);
create index outbox_line on everwhen.outbox (queue, tenant_id);

-- How the relay finds each broker, for whoever asks why a run waits. No tenant's.
create table everwhen.brokers (
  broker  text primary key,
  is_away boolean not null,
  since   timestamptz not null,
  detail  text not null,
  seen_at timestamptz not null
);

alter table everwhen.outbox enable row level security, force row level security;
create policy own_rows on everwhen.outbox to everwhen_tenant
  using (tenant_id = (select everwhen.current_tenant())) with check (tenant_id = (select everwhen.current_tenant()));
create policy all_tenants on everwhen.outbox to everwhen_system using (true) with check (true);
grant select, insert, update, delete on everwhen.outbox to everwhen_tenant, everwhen_system;
grant select, insert, update, delete on everwhen.brokers to everwhen_system;
