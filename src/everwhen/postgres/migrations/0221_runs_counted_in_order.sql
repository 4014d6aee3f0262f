-- Two transactions that counted runs near a tenant's limit could wait for each other: one held its own row of a later day,
-- far from the limit, and waited for all rows of an earlier one, and the other the other way round; so at the edge of
-- midnight, or with two tenants. Now all rows are locked in the order of tenant, day and shard, near and far alike, and what
-- is given back goes into a row that this transaction holds already.

create or replace function everwhen.use_runs(tenant_ids uuid[], days date[], wanted integer[], usual bigint)
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
            > coalesce(l.runs_per_day, usual) - greatest(coalesce(l.runs_per_day, usual) / 10, 10000));
  if near = '{}' then
    insert into everwhen.run_counts as c (tenant_id, day, shard, runs)
    select i.tenant_id, i.day, own, i.wanted
    from unnest(tenant_ids, days, wanted) as i (tenant_id, day, wanted)
    order by i.tenant_id, i.day
    on conflict (tenant_id, day, shard) do update set runs = c.runs + excluded.runs;
    return query
      select i.n::integer, i.wanted, usual
      from unnest(tenant_ids, days, wanted) with ordinality as i (tenant_id, day, wanted, n);
    return;
  end if;
  for a in
    select i.n::integer as n, i.tenant_id, i.day, i.wanted
    from unnest(tenant_ids, days, wanted) with ordinality as i (tenant_id, day, wanted, n)
    order by i.tenant_id, i.day
  loop
    n := a.n;
    if a.n <> all(near) then
      insert into everwhen.run_counts as c (tenant_id, day, shard, runs) values (a.tenant_id, a.day, own, a.wanted)
      on conflict (tenant_id, day, shard) do update set runs = c.runs + excluded.runs;
      granted := a.wanted;
      most := usual;
      return next;
      continue;
    end if;
    insert into everwhen.run_counts (tenant_id, day, shard, runs) values (a.tenant_id, a.day, 0, 0) on conflict do nothing;
    perform from everwhen.run_counts c where c.tenant_id = a.tenant_id and c.day = a.day order by c.shard for update;
    most := coalesce(
      (select l.runs_per_day from everwhen.tenant_limits l where l.tenant_id = a.tenant_id), usual);
    granted := greatest(0, least(a.wanted, most - (
      select sum(c.runs) from everwhen.run_counts c where c.tenant_id = a.tenant_id and c.day = a.day)));
    update everwhen.run_counts c
    set runs = c.runs + granted, skipped = c.skipped + a.wanted - granted
    where c.tenant_id = a.tenant_id and c.day = a.day and c.shard = 0;
    return next;
  end loop;
end $$;
