-- What every layout shares: the wide row per intention, and the append-only history. Partitions are added by the script.

-- name: ddl
create sequence event_ids;
create table runs (
  tenant_id uuid not null, run_id uuid not null, schedule_id uuid, task text not null, queue text not null, source text not null,
  priority smallint not null, nominal_at timestamptz, due_at timestamptz not null, planned_at timestamptz not null default now(),
  max_attempts smallint not null default 3, timeout_seconds integer, input jsonb not null,
  state text not null default 'waiting', reason text, finished_at timestamptz,
  primary key (tenant_id, run_id)
) partition by range (run_id);
create index runs_of_schedule on runs (schedule_id, run_id);
create table attempts (
  tenant_id uuid not null, run_id uuid not null, attempt smallint not null, worker text not null, claimed_at timestamptz not null,
  finished_at timestamptz not null, outcome text not null, error jsonb,
  primary key (tenant_id, run_id, attempt)
) partition by range (run_id);
create table events (
  tenant_id uuid not null, run_id uuid not null, event_id bigint not null default nextval('event_ids'),
  at timestamptz not null default now(), kind text not null, attempt smallint, detail jsonb,
  primary key (tenant_id, run_id, event_id)
) partition by range (run_id);
create table run_ends (
  tenant_id uuid not null, run_id uuid not null, state text not null, reason text, finished_at timestamptz not null,
  attempt smallint not null,
  primary key (tenant_id, run_id)
) partition by range (run_id);

-- name: history
-- n finished runs of the last three days, all in the current week's partition: the worst place for them.
with made as (
  insert into runs (tenant_id, run_id, schedule_id, task, queue, source, priority, nominal_at, due_at, planned_at, input,
                    state, finished_at)
  select ('00000000-0000-4000-8000-' || lpad((i % 50)::text, 12, '0'))::uuid,
         (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '8' || substr(md5(i::text), 1, 3) || '8'
          || substr(md5(i::text), 4, 15))::uuid,
         ('00000000-0000-4000-9000-' || lpad((i % 1000)::text, 12, '0'))::uuid, 'report.build', 'default', 'schedule', 5,
         at, at, at, jsonb_build_object('url', 'https://example.invalid/hook', 'args', jsonb_build_array(1, 2, 3), 'body', repeat('x', 640)),
         'succeeded', at
  from (select i, now() - interval '3 days' + i * interval '259200 s' / {n} as at from generate_series(1, {n}) i) s
  returning tenant_id, run_id, due_at),
tried as (insert into attempts select tenant_id, run_id, 1, 'worker-1', due_at, due_at, 'succeeded', null from made),
ended as (insert into run_ends select tenant_id, run_id, 'succeeded', null, due_at, 1 from made)
insert into events (tenant_id, run_id, at, kind, attempt, detail)
select tenant_id, run_id, due_at, kind, 1, case when kind = 'claimed' then '{"worker": "worker-1"}'::jsonb end
from made cross join unnest('{planned,claimed,succeeded}'::text[]) kind;

-- name: sizes
select coalesce(nullif(regexp_replace(c.relname, '_p\d+$', ''), ''), c.relname), sum(pg_relation_size(c.oid))::bigint,
       sum(pg_indexes_size(c.oid))::bigint
from pg_class c where c.relkind = 'r' and c.relnamespace = 'everwhen'::regnamespace group by 1
