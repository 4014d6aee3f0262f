-- Bulk operations, dead letters, and the runs that they make.

-- The operation that made a run. The two indexes hold only runs that were made from others.
alter table everwhen.runs add column operation_id uuid;
create index runs_operation on everwhen.runs (tenant_id, operation_id, run_id) where operation_id is not null;
create index runs_origin on everwhen.runs (tenant_id, origin_run_id, run_id) where origin_run_id is not null;

-- Dead runs by what their last error looks like; those without a fingerprint are one group.
create index run_ends_dead on everwhen.run_ends (tenant_id, (coalesce(fingerprint, '')), run_id) where state = 'dead';

-- What people have done about dead runs. A dead run without a row here is open: nobody has touched it. Ends are never
-- changed, so this stands apart; it carries no foreign key to runs.
create table everwhen.dead_letters (
  tenant_id   uuid not null references everwhen.tenants (id),
  run_id      uuid not null,
  state       text not null check (state in ('open', 'redriven', 'dismissed')),
  redrives    integer not null default 0 check (redrives >= 0),
  redriven_as uuid, -- the run that the last redrive made
  changed_by  text not null,
  reason      text,
  changed_at  timestamptz not null,
  primary key (tenant_id, run_id)
);

-- Bulk work as a thing of its own: what was asked for, by whom and why, how far it is. Counters are of items.
create table everwhen.operations (
  tenant_id     uuid not null references everwhen.tenants (id),
  id            uuid not null,
  kind          text not null check (kind in ('redrive', 'backfill', 'cancel_runs')),
  state         text not null check (
    state in ('planned', 'running', 'paused', 'aborting', 'succeeded', 'failed', 'aborted')),
  state_reason  text,
  request       jsonb not null, -- what to do, in full: see everwhen.operations.model
  requested_by  text not null,
  reason        text not null,
  created_at    timestamptz not null,
  changed_by    text not null, -- who paused, resumed or aborted it last, and why
  changed_reason text,
  changed_at    timestamptz not null,
  finished_at   timestamptz,
  moved_at      timestamptz not null, -- when something was done or seen last
  total         bigint not null check (total >= 0),
  done          bigint not null default 0, -- runs made, or asked to be cancelled
  skipped       bigint not null default 0, -- items that needed nothing any more
  succeeded     bigint not null default 0, -- of those done: runs that ended so
  dead          bigint not null default 0,
  ended         bigint not null default 0, -- in another way
  canary_passed boolean not null,
  listed_until  timestamptz, -- backfill: how far its instants are items
  listed        bytea not null, -- a digest of the items, in their order
  listed_count  bigint not null,
  rate_at       timestamptz not null, -- when the next run may be made under the rate
  seen_seq      bigint not null, -- which item was looked at last
  next_at       timestamptz, -- when the operator looks next; null: it need not
  primary key (tenant_id, id),
  check (done + skipped <= total and succeeded + dead + ended <= done)
);
create index operations_next on everwhen.operations (next_at) where next_at is not null;

-- What an operation is about, each thing once: a run, or an instant of a schedule.
create table everwhen.operation_items (
  tenant_id          uuid not null,
  operation_id       uuid not null,
  seq                bigint not null,
  run_id             uuid, -- the run to redrive or to cancel
  nominal_at         timestamptz, -- the instant to fill
  utc_offset_seconds integer,
  state              text not null default 'left' check (
    state in ('left', 'done', 'skipped', 'succeeded', 'dead', 'ended')),
  reason             text,
  made_run_id        uuid, -- the run whose end counts
  primary key (tenant_id, operation_id, seq),
  foreign key (tenant_id, operation_id) references everwhen.operations (tenant_id, id),
  check ((run_id is null) <> (nominal_at is null))
);
create index operation_items_state on everwhen.operation_items (tenant_id, operation_id, state, seq);

do $$
declare t text;
begin
  foreach t in array array['dead_letters', 'operations', 'operation_items'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = everwhen.current_tenant()) with check (tenant_id = everwhen.current_tenant())', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
grant select, insert, update on everwhen.dead_letters, everwhen.operations, everwhen.operation_items
  to everwhen_tenant, everwhen_system;
