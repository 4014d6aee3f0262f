-- Rate limits: what copies of the API draw from the buckets that they share.

-- name: draw_allowances
-- Locks in the order of the key, in which the caller gives them. A bucket that has no row is full.
insert into everwhen.rate_buckets as b (key, full_at, granted, quota, seconds, owed, wanted)
select w.key, d.full_at, d.granted, w.quota, w.seconds, w.owed, w.wanted
from unnest(%(keys)s::bytea[], %(quotas)s::int[], %(seconds)s::float8[], %(owed)s::int[], %(wanted)s::int[])
       as w (key, quota, seconds, owed, wanted)
cross join lateral everwhen.draw_from(%(now)s, %(now)s, w.quota, w.seconds, w.owed, w.wanted) d
order by w.key
on conflict (key) do update
set (full_at, granted, quota, seconds, owed, wanted) = (
  select d.full_at, d.granted, excluded.quota, excluded.seconds, excluded.owed, excluded.wanted
  from everwhen.draw_from(%(now)s, greatest(b.full_at, %(now)s), excluded.quota, excluded.seconds, excluded.owed,
                          excluded.wanted) d)
returning b.key, b.granted, extract(epoch from b.full_at - %(now)s)::float8 as full_in, b.quota, b.seconds;

-- name: drop_full
-- A bucket that is full needs no row. A batch of them, over all tenants.
delete from everwhen.rate_buckets b
where b.key = any(array(
  select f.key from everwhen.rate_buckets f where f.full_at <= %(now)s limit %(limit)s for update skip locked));
