-- Queues as things that a tenant defines. A queue that tasks only name has no row here, and everything as by default.

-- What a tenant says of one of its queues. A deleted one keeps its row, so that its revisions go on counting, with
-- everything as by default.
create table everwhen.queues (
  tenant_id         uuid not null references everwhen.tenants (id),
  name              text not null check (length(name) between 1 and 200),
  max_in_flight     integer check (max_in_flight >= 0),       -- null: no limit
  rate_tokens       integer check (rate_tokens >= 1),         -- so many runs begin …
  rate_seconds      double precision check (rate_seconds > 0), -- … in so many seconds; null: no limit
  rate_burst        integer check (rate_burst >= 1),          -- so many at once, after a rest
  delivery          text not null default 'pull' check (delivery in ('pull', 'nats', 'rabbitmq', 'webhook')),
  delivery_settings jsonb not null default '{}' check (jsonb_typeof(delivery_settings) = 'object'),
  ageing_seconds    double precision default 3600 check (ageing_seconds > 0), -- null: nothing ages
  tags              text[] not null default '{}' check (cardinality(tags) <= 20),
  owner             text check (length(owner) between 1 and 200),
  revision          integer not null default 1,
  created_at        timestamptz not null,
  updated_at        timestamptz not null,
  deleted_at        timestamptz,
  primary key (tenant_id, name),
  check (num_nulls(rate_tokens, rate_seconds, rate_burst) in (0, 3))
);
create index queues_by_owner on everwhen.queues (tenant_id, owner, name) where deleted_at is null;

-- What the platform says of a tenant's place at a queue that tenants share: its share of what is handed out there, and
-- how much of it may be in flight.
create table everwhen.queue_shares (
  tenant_id     uuid not null references everwhen.tenants (id),
  queue         text not null check (length(queue) between 1 and 200),
  weight        integer not null default 1 check (weight between 1 and 1000),
  max_in_flight integer check (max_in_flight >= 0),
  revision      integer not null default 1,
  changed_by    text not null,
  changed_at    timestamptz not null,
  primary key (tenant_id, queue)
);

alter table everwhen.queues enable row level security, force row level security;
create policy own_rows on everwhen.queues to everwhen_tenant
  using (tenant_id = (select everwhen.current_tenant())) with check (tenant_id = (select everwhen.current_tenant()));
create policy all_tenants on everwhen.queues to everwhen_system using (true) with check (true);
grant select, insert, update on everwhen.queues to everwhen_tenant, everwhen_system;

alter table everwhen.queue_shares enable row level security, force row level security;
create policy own_rows on everwhen.queue_shares for select to everwhen_tenant
  using (tenant_id = (select everwhen.current_tenant()));
create policy all_tenants on everwhen.queue_shares to everwhen_system using (true) with check (true);
grant select on everwhen.queue_shares to everwhen_tenant;
grant select, insert, update on everwhen.queue_shares to everwhen_system;

-- What a claim reads of both: written by the transaction that writes them, so that it holds for the next claim.
alter table everwhen.lanes add column ageing_seconds double precision default 3600 check (ageing_seconds > 0);

-- Limits and weights that were set in the lanes themselves, before there were these tables.
insert into everwhen.queue_shares (tenant_id, queue, weight, max_in_flight, changed_by, changed_at)
select tenant_id, queue, weight, max_in_flight, 'everwhen', now()
from everwhen.lanes
where weight <> 1 or max_in_flight is not null;

alter table everwhen.tenant_limits add column queues bigint check (queues >= 0);
