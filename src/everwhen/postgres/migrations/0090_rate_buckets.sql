-- Buckets of the API's rate limits, shared by all its copies: when each is full again (core/buckets.py). Whose a bucket
-- is stands in a digest, so that no address and no subject is kept. Unlogged: what a crash or a failover loses is that
-- buckets are full again, and drawing from one waits for no disk and for no standby. The other columns are what was asked
-- of it last.
create unlogged table everwhen.rate_buckets (
  key     bytea primary key,
  full_at timestamptz not null,
  granted integer not null,
  quota   integer not null,
  seconds double precision not null,
  owed    integer not null,
  wanted  integer not null
) with (fillfactor = 50);
grant select, insert, update, delete on everwhen.rate_buckets to everwhen_system;

-- A draw: what is owed first, then up to `wanted` of what is left. The function `draw` of core/buckets.py says the same.
create function everwhen.draw_from(
  now timestamptz, known timestamptz, quota integer, seconds double precision, owed integer, wanted integer,
  out full_at timestamptz, out granted integer) language sql immutable parallel safe
begin atomic
  select now + make_interval(secs => d.full_in + d.granted * seconds / quota), d.granted
  from (
    select a.full_in,
           greatest(0, least(wanted, floor((seconds - a.full_in) * quota / seconds + 1e-6)))::integer as granted
    from (
      select greatest(0, least(extract(epoch from known - now)::double precision, 2 * seconds)
                         + owed * seconds / quota) as full_in) a) d;
end;
