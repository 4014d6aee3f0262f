-- Why runs wait: who asks for runs, what blocks a line from when to when, and who was watching.

-- Which workers have asked for runs of a queue: one row for each queue and API process, written every few seconds from
-- its memory, never by a claim. Workers of the platform stand under the tenant of all zeros.
create table everwhen.sightings (
  tenant_id    uuid not null,
  queue        text not null check (length(queue) between 1 and 200),
  server_id    uuid not null, -- the API process that was asked
  tasks        text[],        -- what they know, all together; null: somebody takes anything
  last_seen_at timestamptz not null,
  primary key (tenant_id, queue, server_id)
) with (fillfactor = 50);
create index sightings_age on everwhen.sightings (last_seen_at);

-- What blocked a line, or one task of it ('' stands for all), from when to when. Written on change only: one row is open
-- for each line and reason, and a closed one is never touched again.
create table everwhen.line_states (
  tenant_id uuid not null,
  queue     text not null,
  task      text not null,
  reason    text not null,
  opened_at timestamptz not null, -- when it was noticed
  since     timestamptz not null, -- when it began
  until     timestamptz,          -- null: it goes on
  facts     jsonb not null,       -- numbers, as of when it was noticed
  primary key (tenant_id, queue, task, reason, opened_at)
);
create unique index line_states_open on everwhen.line_states (tenant_id, queue, task, reason) where until is null;

-- When somebody was watching the lines: where nobody was, an explanation says that it is not complete.
create table everwhen.observations (
  observer_id uuid not null,
  since       timestamptz not null,
  until       timestamptz not null,
  primary key (observer_id, since)
) with (fillfactor = 50);
create index observations_until on everwhen.observations (until);

do $$
declare t text;
begin
  foreach t in array array['sightings', 'line_states'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = everwhen.current_tenant()) with check (tenant_id = everwhen.current_tenant())', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
grant select, insert, update, delete on everwhen.sightings to everwhen_system;
grant select on everwhen.line_states, everwhen.observations to everwhen_tenant;
grant select, insert, update on everwhen.line_states, everwhen.observations to everwhen_system;
grant select on everwhen.sightings to everwhen_tenant;
