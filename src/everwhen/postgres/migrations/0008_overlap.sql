-- Overlap: runs that are held behind their schedule's gate until they are let in; pauses of queues and tenants; pauses
-- of schedules that end by themselves; and failures in a row.

alter table everwhen.schedules add column is_gated boolean not null default false; -- its runs go into held, not into waiting
alter table everwhen.schedules add column paused_until timestamptz; -- null: not paused, or until somebody resumes it
alter table everwhen.schedule_revisions add column paused_until timestamptz;
alter table everwhen.schedule_revisions drop constraint schedule_revisions_action_check;
alter table everwhen.schedule_revisions add constraint schedule_revisions_action_check
  check (action in ('created', 'updated', 'paused', 'resumed', 'released', 'deleted', 'rezoned'));
create index schedules_paused_until on everwhen.schedules (paused_until) where paused_until is not null;

-- One row for each schedule whose runs may not simply overlap. Whoever holds it decides; it carries the policy, so that
-- nobody needs the schedule's own row, which a change holds while it waits for this one.
create table everwhen.gates (
  tenant_id    uuid not null,
  schedule_uid uuid not null,
  policy       text not null check (policy in ('allow', 'skip', 'buffer_one', 'buffer_latest', 'buffer_all',
                                               'cancel_other', 'terminate_other', 'strict_sequential')),
  max_running  integer check (max_running > 0), -- null: by the policy
  max_buffered integer check (max_buffered > 0),
  on_failure   text not null check (on_failure in ('continue', 'hold')),
  is_paused    boolean not null default false, -- what the schedule planned is not let in
  held_up_by   uuid, -- the dead run that holds a strict line up
  decided_at   timestamptz not null, -- never goes back: what is let in after an end is let in no earlier than it
  primary key (tenant_id, schedule_uid),
  foreign key (tenant_id, schedule_uid) references everwhen.schedules (tenant_id, uid)
);

-- The line of a gate. look_at is when the gatekeeper has to look at the row: the due instant, then the start deadline.
create table everwhen.held (
  tenant_id     uuid not null,
  schedule_uid  uuid not null,
  line_at       timestamptz not null, -- its place: the nominal instant where order is strict, else the due instant
  run_id        uuid not null,
  due_at        timestamptz not null,
  look_at       timestamptz,
  queue         text not null,
  priority      smallint not null check (priority between 0 and 9),
  task          text not null,
  expires_at    timestamptz,
  is_planned    boolean not null, -- by its schedule; else somebody asked for it
  is_patient    boolean not null default false, -- it waits for room whatever the policy does
  origin_run_id uuid, -- the run that it was made from
  reason        text, -- why it waits, once it is due
  blocked_by    uuid[],
  waits_since   timestamptz,
  primary key (tenant_id, schedule_uid, line_at, run_id)
);
-- By the run first, so that no plan takes this index for a way to a tenant's line, nor the line for a way to a run.
create unique index held_run on everwhen.held (run_id, tenant_id);
create index held_look on everwhen.held (look_at) where look_at is not null;

-- What a gate has let in and has not ended: the count that the limit is about.
create table everwhen.admitted (
  tenant_id     uuid not null,
  schedule_uid  uuid not null,
  run_id        uuid not null,
  admitted_at   timestamptz not null,
  stop_asked_at timestamptz, -- when a later run of the schedule had it asked to stop
  primary key (tenant_id, schedule_uid, run_id)
);
create unique index admitted_run on everwhen.admitted (run_id, tenant_id);

-- Failures in a row of the schedules that pause themselves after some.
create table everwhen.streaks (
  tenant_id    uuid not null,
  schedule_uid uuid not null,
  pause_after  integer not null check (pause_after > 0),
  failures     integer not null default 0,
  run_ids      uuid[] not null default '{}', -- the latest of them, the oldest first
  pause_at     timestamptz, -- when the schedule is to be paused for it; null: not now
  primary key (tenant_id, schedule_uid),
  foreign key (tenant_id, schedule_uid) references everwhen.schedules (tenant_id, uid)
);
create index streaks_pause on everwhen.streaks (pause_at) where pause_at is not null;

-- A queue of a tenant, or the whole tenant (queue ''), from which nothing is handed out.
create table everwhen.pauses (
  tenant_id    uuid not null references everwhen.tenants (id),
  queue        text not null check (length(queue) <= 200),
  reason       text not null,
  paused_by    text not null,
  paused_at    timestamptz not null,
  paused_until timestamptz, -- null: until somebody resumes it
  primary key (tenant_id, queue)
);
create index pauses_until on everwhen.pauses (paused_until) where paused_until is not null;

create sequence everwhen.pause_changes_ids as bigint;
create table everwhen.pause_changes (
  tenant_id    uuid not null references everwhen.tenants (id),
  change_id    bigint not null default nextval('everwhen.pause_changes_ids'),
  queue        text not null,
  action       text not null check (action in ('paused', 'resumed')),
  changed_by   text not null,
  reason       text,
  paused_until timestamptz,
  changed_at   timestamptz not null,
  primary key (tenant_id, change_id)
);

do $$
declare t text;
begin
  foreach t in array array['gates', 'held', 'admitted', 'streaks', 'pauses', 'pause_changes'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = everwhen.current_tenant()) with check (tenant_id = everwhen.current_tenant())', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
grant select, insert, update on everwhen.gates to everwhen_tenant, everwhen_system;
grant select, insert, update, delete on everwhen.held, everwhen.admitted, everwhen.streaks, everwhen.pauses
  to everwhen_tenant, everwhen_system;
grant select, insert on everwhen.pause_changes to everwhen_tenant, everwhen_system;
grant usage on sequence everwhen.pause_changes_ids to everwhen_tenant, everwhen_system;
