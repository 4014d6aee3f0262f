-- What both forms of layout E share.

-- name: ddl
create table lanes (
  queue text not null, tenant_id uuid not null, weight real not null default 1, max_in_flight integer,
  in_flight integer not null default 0, virtual_time double precision not null default 0,
  primary key (queue, tenant_id)
) with (fillfactor = 30);
-- Counting what a lane holds is one range of this index. No index on lease_until: heartbeats stay HOT.
create index leases_of_lane on leases (queue, tenant_id);

-- name: fill_lanes
insert into lanes (queue, tenant_id, max_in_flight)
select 'default', ('00000000-0000-4000-8000-' || lpad(i::text, 12, '0'))::uuid, 100000 from generate_series(0, {n} - 1) i
on conflict do nothing
