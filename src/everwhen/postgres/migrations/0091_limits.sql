-- Limits of tenants (core/quotas.py), and what is counted by the day. A tenant without a row, and a limit that is null, has
-- what is usual. Only the platform writes them.
create table everwhen.tenant_limits (
  tenant_id                uuid primary key references everwhen.tenants (id),
  revision                 integer not null check (revision > 0),
  attempts                 bigint check (attempts >= 1),
  calendars                bigint check (calendars >= 0),
  channels                 bigint check (channels >= 0),
  members                  bigint check (members >= 0),
  minimum_interval_seconds bigint check (minimum_interval_seconds >= 1),
  payload_bytes            bigint check (payload_bytes >= 0),
  requests_per_minute      bigint check (requests_per_minute >= 6),
  runs_per_day             bigint check (runs_per_day >= 0),
  schedules                bigint check (schedules >= 0),
  subscriptions            bigint check (subscriptions >= 0),
  tasks                    bigint check (tasks >= 0),
  tokens                   bigint check (tokens >= 0),
  workflows                bigint check (workflows >= 0),
  changed_by               text not null,
  changed_at               timestamptz not null
);

-- How many runs of a tenant become due on a day (UTC). Each connection counts in a row of its own (shard), so that nobody
-- waits for another's commit; days that are over have one row. `skipped`: planned, and over the limit.
create table everwhen.run_counts (
  tenant_id uuid not null references everwhen.tenants (id),
  day       date not null,
  shard     smallint not null,
  runs      bigint not null,
  skipped   bigint not null default 0,
  primary key (tenant_id, day, shard)
) with (fillfactor = 50);
create index run_counts_shards on everwhen.run_counts (day) where shard <> 0;

-- How many requests of a tenant came on a day (UTC), and how many of them were refused by its rate.
create table everwhen.request_counts (
  tenant_id       uuid not null references everwhen.tenants (id),
  day             date not null,
  requests        bigint not null,
  refused         bigint not null,
  worker_requests bigint not null,
  primary key (tenant_id, day)
) with (fillfactor = 50);

do $$
declare t text;
begin
  foreach t in array array['tenant_limits', 'run_counts', 'request_counts'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = (select everwhen.current_tenant()))
                    with check (tenant_id = (select everwhen.current_tenant()))', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
grant select on everwhen.tenant_limits, everwhen.request_counts to everwhen_tenant;
grant select, insert, update on everwhen.run_counts to everwhen_tenant;
grant select, insert, update on everwhen.tenant_limits, everwhen.request_counts to everwhen_system;
grant select, insert, update, delete on everwhen.run_counts to everwhen_system;

-- Counts runs against their tenants' limits, each pair of a tenant and a day once; says of each how many there is room for.
--
-- Far from the limit (a tenth of it away, or ten thousand runs if that is more) a connection counts in its own row: all
-- that others have not committed yet cannot bridge that. Near it, all rows of the day are locked first, in order, and
-- summed up by a statement that sees what their last holders have committed: of two who ask for the last run one gets it.
create function everwhen.use_runs(tenant_ids uuid[], days date[], wanted integer[], usual bigint)
returns table (n integer, granted integer, most bigint) language plpgsql as $$
#variable_conflict use_column
declare
  own  constant smallint := 1 + pg_backend_pid() % 63;
  near integer[];
  a    record;
begin
  near := array(
    select i.n::integer
    from unnest(tenant_ids, days, wanted) with ordinality as i (tenant_id, day, wanted, n)
    left join lateral (
      select l.runs_per_day from everwhen.tenant_limits l where l.tenant_id = i.tenant_id offset 0) l on true
    left join lateral (
      select sum(c.runs) as used from everwhen.run_counts c
      where c.tenant_id = i.tenant_id and c.day = i.day offset 0) c on true
    where coalesce(c.used, 0) + i.wanted
            > coalesce(l.runs_per_day, usual) - greatest(coalesce(l.runs_per_day, usual) / 10, 10000)
    order by i.tenant_id, i.day);
  insert into everwhen.run_counts as c (tenant_id, day, shard, runs)
  select i.tenant_id, i.day, own, i.wanted
  from unnest(tenant_ids, days, wanted) with ordinality as i (tenant_id, day, wanted, n)
  where i.n <> all(near)
  order by i.tenant_id, i.day
  on conflict (tenant_id, day, shard) do update set runs = c.runs + excluded.runs;
  for a in
    select i.n::integer as n, i.tenant_id, i.day, i.wanted
    from unnest(near) as m (n)
    join unnest(tenant_ids, days, wanted) with ordinality as i (tenant_id, day, wanted, n) on i.n = m.n
    order by i.tenant_id, i.day
  loop
    insert into everwhen.run_counts (tenant_id, day, shard, runs) values (a.tenant_id, a.day, 0, 0) on conflict do nothing;
    perform from everwhen.run_counts c where c.tenant_id = a.tenant_id and c.day = a.day order by c.shard for update;
    n := a.n;
    most := coalesce(
      (select l.runs_per_day from everwhen.tenant_limits l where l.tenant_id = a.tenant_id), usual);
    granted := greatest(0, least(a.wanted, most - (
      select sum(c.runs) from everwhen.run_counts c where c.tenant_id = a.tenant_id and c.day = a.day)));
    update everwhen.run_counts c
    set runs = c.runs + granted, skipped = c.skipped + a.wanted - granted
    where c.tenant_id = a.tenant_id and c.day = a.day and c.shard = 0;
    return next;
  end loop;
  return query
    select i.n::integer, i.wanted, usual
    from unnest(tenant_ids, days, wanted) with ordinality as i (tenant_id, day, wanted, n)
    where i.n <> all(near);
end $$;
