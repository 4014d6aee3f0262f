-- Each statement cuts a page of ids on one index, before anything is joined. Which of them serves a filter is decided in
-- service.py; what none of them serves is refused rather than walked for.
--
-- A page looks at no more than `walk` rows of its index, so that a rare value costs no more than a common one. `found` is
-- read lazily: it stops at the limit. Only when it comes to fewer rows is the end of the walk looked up, on the index
-- alone: the row that is not `fits`. It is the place where the next page goes on; without it there is none.

-- name: page_runs
-- Ids of runs, the newest first. A list is cut on an index before anything is joined (read_runs): a plan that is kept for
-- all limits would take this one for a tenth of the table, and read the whole history to join it.
with found as materialized (
  select w.run_id
  from (
    select r.run_id, (%(task)s::text is null or r.task = %(task)s) and (%(source)s::text is null or r.source = %(source)s) as fits
    from everwhen.runs r
    where r.tenant_id = %(tenant_id)s and r.run_id < %(before)s
      and r.run_id >= %(since)s
    order by r.run_id desc
    limit %(walk)s) w
  where w.fits
  order by w.run_id desc
  limit %(limit)s)
select run_id, true as fits from found
union all
select e.run_id, false
from (select from found having count(*) < %(limit)s) short
cross join lateral (
    select r.run_id
    from everwhen.runs r
    where r.tenant_id = %(tenant_id)s and r.run_id < %(before)s
      and r.run_id >= %(since)s
    order by r.run_id desc
    offset %(walk)s - 1 limit 1) e;

-- name: page_schedule_runs
-- The same on the schedule's own index. Apart from page_runs, because one plan for all parameters could serve only one.
with found as materialized (
  select w.run_id
  from (
    select r.run_id, (%(task)s::text is null or r.task = %(task)s) and (%(source)s::text is null or r.source = %(source)s) as fits
    from everwhen.runs r
    where r.tenant_id = %(tenant_id)s and r.schedule_uid = %(schedule_uid)s and r.run_id < %(before)s
      and r.run_id >= %(since)s
    order by r.run_id desc
    limit %(walk)s) w
  where w.fits
  order by w.run_id desc
  limit %(limit)s)
select run_id, true as fits from found
union all
select e.run_id, false
from (select from found having count(*) < %(limit)s) short
cross join lateral (
    select r.run_id
    from everwhen.runs r
    where r.tenant_id = %(tenant_id)s and r.schedule_uid = %(schedule_uid)s and r.run_id < %(before)s
      and r.run_id >= %(since)s
    order by r.run_id desc
    offset %(walk)s - 1 limit 1) e;

-- name: page_operation_runs
-- The runs that an operation made, all of them or those that ended so. The condition on null is the index's own.
with found as materialized (
  select w.run_id
  from (
    select r.run_id, %(state)s::text is null or exists (
        select from everwhen.run_ends e
        where e.tenant_id = r.tenant_id and e.run_id = r.run_id and e.state = %(state)s) as fits
    from everwhen.runs r
    where r.tenant_id = %(tenant_id)s and r.operation_id is not null and r.operation_id = %(operation_id)s and r.run_id < %(before)s
      and r.run_id >= %(since)s
    order by r.run_id desc
    limit %(walk)s) w
  where w.fits
  order by w.run_id desc
  limit %(limit)s)
select run_id, true as fits from found
union all
select e.run_id, false
from (select from found having count(*) < %(limit)s) short
cross join lateral (
    select r.run_id
    from everwhen.runs r
    where r.tenant_id = %(tenant_id)s and r.operation_id is not null and r.operation_id = %(operation_id)s and r.run_id < %(before)s
      and r.run_id >= %(since)s
    order by r.run_id desc
    offset %(walk)s - 1 limit 1) e;

-- name: page_origin_runs
-- The runs that were made from one run: its redrives. Nothing is left to check.
select r.run_id, true as fits
from everwhen.runs r
where r.tenant_id = %(tenant_id)s and r.origin_run_id is not null and r.origin_run_id = %(origin_run_id)s
  and r.run_id < %(before)s and r.run_id >= %(since)s
order by r.run_id desc
limit %(limit)s;

-- name: page_ended
-- Ids of runs that ended so, but not well, the newest first. The index holds all but the successes, and only a condition
-- in the text lets a plan for all parameters use it. `any_run`: nothing is asked of the run itself.
with found as materialized (
  select w.run_id
  from (
    select e.run_id, (%(reason)s::text is null or e.reason = %(reason)s)
      and (%(ended_from)s::timestamptz is null or e.finished_at >= %(ended_from)s)
      and (%(ended_before)s::timestamptz is null or e.finished_at < %(ended_before)s)
      and (%(letter)s::text is null or %(letter)s = coalesce((
        select d.state from everwhen.dead_letters d where d.tenant_id = e.tenant_id and d.run_id = e.run_id), 'open'))
      and (%(any_run)s or exists (
        select from everwhen.runs r
        where r.tenant_id = e.tenant_id and r.run_id = e.run_id
          and (%(schedule_uid)s::uuid is null or r.schedule_uid = %(schedule_uid)s)
          and (%(task)s::text is null or r.task = %(task)s)
          and (%(source)s::text is null or r.source = %(source)s))) as fits
    from everwhen.run_ends e
    where e.tenant_id = %(tenant_id)s and e.state = %(state)s and e.state <> 'succeeded' and e.run_id < %(before)s
      and e.run_id >= %(since)s
    order by e.run_id desc
    limit %(walk)s) w
  where w.fits
  order by w.run_id desc
  limit %(limit)s)
select run_id, true as fits from found
union all
select e.run_id, false
from (select from found having count(*) < %(limit)s) short
cross join lateral (
    select e.run_id
    from everwhen.run_ends e
    where e.tenant_id = %(tenant_id)s and e.state = %(state)s and e.state <> 'succeeded' and e.run_id < %(before)s
      and e.run_id >= %(since)s
    order by e.run_id desc
    offset %(walk)s - 1 limit 1) e;

-- name: page_dead
-- Dead runs of one group, the newest first: what page_ended does, on the index of fingerprints. Its two columns are bounded
-- together and both ordered by, which no other index can serve; the bounds of the id choose the partitions.
with found as materialized (
  select w.run_id
  from (
    select e.run_id, (%(reason)s::text is null or e.reason = %(reason)s)
      and (%(ended_from)s::timestamptz is null or e.finished_at >= %(ended_from)s)
      and (%(ended_before)s::timestamptz is null or e.finished_at < %(ended_before)s)
      and (%(letter)s::text is null or %(letter)s = coalesce((
        select d.state from everwhen.dead_letters d where d.tenant_id = e.tenant_id and d.run_id = e.run_id), 'open'))
      and (%(any_run)s or exists (
        select from everwhen.runs r
        where r.tenant_id = e.tenant_id and r.run_id = e.run_id
          and (%(schedule_uid)s::uuid is null or r.schedule_uid = %(schedule_uid)s)
          and (%(task)s::text is null or r.task = %(task)s)
          and (%(source)s::text is null or r.source = %(source)s))) as fits
    from everwhen.run_ends e
    where e.tenant_id = %(tenant_id)s and e.state = 'dead' and e.run_id < %(before)s and e.run_id >= %(since)s
      and (e.fingerprint, e.run_id) < (%(fingerprint)s, %(before)s)
      and (e.fingerprint, e.run_id) >= (%(fingerprint)s, %(since)s)
    order by e.fingerprint desc, e.run_id desc
    limit %(walk)s) w
  where w.fits
  order by w.run_id desc
  limit %(limit)s)
select run_id, true as fits from found
union all
select e.run_id, false
from (select from found having count(*) < %(limit)s) short
cross join lateral (
    select e.run_id
    from everwhen.run_ends e
    where e.tenant_id = %(tenant_id)s and e.state = 'dead' and e.run_id < %(before)s and e.run_id >= %(since)s
      and (e.fingerprint, e.run_id) < (%(fingerprint)s, %(before)s)
      and (e.fingerprint, e.run_id) >= (%(fingerprint)s, %(since)s)
    order by e.fingerprint desc, e.run_id desc
    offset %(walk)s - 1 limit 1) e;

-- name: page_dead_nameless
-- The same of those whose error has no fingerprint.
with found as materialized (
  select w.run_id
  from (
    select e.run_id, (%(reason)s::text is null or e.reason = %(reason)s)
      and (%(ended_from)s::timestamptz is null or e.finished_at >= %(ended_from)s)
      and (%(ended_before)s::timestamptz is null or e.finished_at < %(ended_before)s)
      and (%(letter)s::text is null or %(letter)s = coalesce((
        select d.state from everwhen.dead_letters d where d.tenant_id = e.tenant_id and d.run_id = e.run_id), 'open'))
      and (%(any_run)s or exists (
        select from everwhen.runs r
        where r.tenant_id = e.tenant_id and r.run_id = e.run_id
          and (%(schedule_uid)s::uuid is null or r.schedule_uid = %(schedule_uid)s)
          and (%(task)s::text is null or r.task = %(task)s)
          and (%(source)s::text is null or r.source = %(source)s))) as fits
    from everwhen.run_ends e
    where e.tenant_id = %(tenant_id)s and e.state = 'dead' and e.fingerprint is null and e.run_id < %(before)s
      and e.run_id >= %(since)s
    order by e.fingerprint desc, e.run_id desc
    limit %(walk)s) w
  where w.fits
  order by w.run_id desc
  limit %(limit)s)
select run_id, true as fits from found
union all
select e.run_id, false
from (select from found having count(*) < %(limit)s) short
cross join lateral (
    select e.run_id
    from everwhen.run_ends e
    where e.tenant_id = %(tenant_id)s and e.state = 'dead' and e.fingerprint is null and e.run_id < %(before)s
      and e.run_id >= %(since)s
    order by e.fingerprint desc, e.run_id desc
    offset %(walk)s - 1 limit 1) e;

-- name: page_succeeded
-- Ids of runs that succeeded, the newest first, along the primary key: they are the rule.
with found as materialized (
  select w.run_id
  from (
    select e.run_id, e.state = 'succeeded'
      and (%(any_run)s or exists (
        select from everwhen.runs r
        where r.tenant_id = e.tenant_id and r.run_id = e.run_id
          and (%(schedule_uid)s::uuid is null or r.schedule_uid = %(schedule_uid)s)
          and (%(task)s::text is null or r.task = %(task)s)
          and (%(source)s::text is null or r.source = %(source)s))) as fits
    from everwhen.run_ends e
    where e.tenant_id = %(tenant_id)s and e.run_id < %(before)s
      and e.run_id >= %(since)s
    order by e.run_id desc
    limit %(walk)s) w
  where w.fits
  order by w.run_id desc
  limit %(limit)s)
select run_id, true as fits from found
union all
select e.run_id, false
from (select from found having count(*) < %(limit)s) short
cross join lateral (
    select e.run_id
    from everwhen.run_ends e
    where e.tenant_id = %(tenant_id)s and e.run_id < %(before)s
      and e.run_id >= %(since)s
    order by e.run_id desc
    offset %(walk)s - 1 limit 1) e;

-- name: page_running
-- Ids of runs that a worker holds, the newest first.
with found as materialized (
  select w.run_id
  from (
    select l.run_id, (%(any_run)s or exists (
        select from everwhen.runs r
        where r.tenant_id = l.tenant_id and r.run_id = l.run_id
          and (%(schedule_uid)s::uuid is null or r.schedule_uid = %(schedule_uid)s)
          and (%(task)s::text is null or r.task = %(task)s)
          and (%(source)s::text is null or r.source = %(source)s)
          and (%(planned_before)s::timestamptz is null or r.planned_at < %(planned_before)s))) as fits
    from everwhen.leases l
    where l.tenant_id = %(tenant_id)s and l.run_id < %(before)s
      and l.run_id >= %(since)s
    order by l.run_id desc
    limit %(walk)s) w
  where w.fits
  order by w.run_id desc
  limit %(limit)s)
select run_id, true as fits from found
union all
select e.run_id, false
from (select from found having count(*) < %(limit)s) short
cross join lateral (
    select l.run_id
    from everwhen.leases l
    where l.tenant_id = %(tenant_id)s and l.run_id < %(before)s
      and l.run_id >= %(since)s
    order by l.run_id desc
    offset %(walk)s - 1 limit 1) e;

-- name: page_resting
-- Ids of runs in the line, the newest first: due (waiting), or not yet, with a failure behind them (retrying) or none
-- (planned). Held runs are in lines of their own, and none of them has failed. Each line is walked by itself: the page is
-- whole down to where the shorter walk ended.
with in_line as materialized (
  select x.run_id
  from (
    select w.run_id, (w.available_at <= %(now)s) = %(due)s
      and (%(due)s or (w.failures > 0) = %(failed)s)
      and (%(any_run)s or exists (
        select from everwhen.runs r
        where r.tenant_id = w.tenant_id and r.run_id = w.run_id
          and (%(schedule_uid)s::uuid is null or r.schedule_uid = %(schedule_uid)s)
          and (%(task)s::text is null or r.task = %(task)s)
          and (%(source)s::text is null or r.source = %(source)s)
          and (%(planned_before)s::timestamptz is null or r.planned_at < %(planned_before)s))) as fits
    from everwhen.waiting w
    where w.tenant_id = %(tenant_id)s and w.run_id < %(before)s and w.run_id >= %(since)s
    order by w.run_id desc
    limit %(walk)s) x
  where x.fits
  order by x.run_id desc
  limit %(limit)s), behind as materialized (
  select x.run_id
  from (
    select h.run_id, (h.due_at <= %(now)s) = %(due)s
      and (%(due)s or not %(failed)s)
      and (%(any_run)s or exists (
        select from everwhen.runs r
        where r.tenant_id = h.tenant_id and r.run_id = h.run_id
          and (%(schedule_uid)s::uuid is null or r.schedule_uid = %(schedule_uid)s)
          and (%(task)s::text is null or r.task = %(task)s)
          and (%(source)s::text is null or r.source = %(source)s)
          and (%(planned_before)s::timestamptz is null or r.planned_at < %(planned_before)s))) as fits
    from everwhen.held h
    where h.tenant_id = %(tenant_id)s and h.run_id < %(before)s and h.run_id >= %(since)s
    order by h.run_id desc
    limit %(walk)s) x
  where x.fits
  order by x.run_id desc
  limit %(limit)s)
(select run_id, true as fits
 from (select run_id from in_line union all select run_id from behind) resting
 order by run_id desc
 limit %(limit)s)
union all
select e.run_id, false
from (select from in_line having count(*) < %(limit)s) short
cross join lateral (
    select w.run_id
    from everwhen.waiting w
    where w.tenant_id = %(tenant_id)s and w.run_id < %(before)s and w.run_id >= %(since)s
    order by w.run_id desc
    offset %(walk)s - 1 limit 1) e
union all
select e.run_id, false
from (select from behind having count(*) < %(limit)s) short
cross join lateral (
    select h.run_id
    from everwhen.held h
    where h.tenant_id = %(tenant_id)s and h.run_id < %(before)s and h.run_id >= %(since)s
    order by h.run_id desc
    offset %(walk)s - 1 limit 1) e;
