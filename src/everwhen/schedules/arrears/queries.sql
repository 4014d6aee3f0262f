-- name: insert_arrears
-- In the transaction that moves the watermarks past them: a crash leaves both undone.
insert into everwhen.arrears
  (tenant_id, schedule_uid, cause, revision, rule, skip_reason, since, until, as_of, late_before, rest_after, rest_until,
   look_at, answered)
select tenant_id, schedule_uid, cause, revision, rule::jsonb, skip_reason, since, until, %(now)s, late_before, since, until,
       case when not is_held then %(now)s::timestamptz end, answered::timestamptz[]
from unnest(%(tenant_ids)s::uuid[], %(schedule_uids)s::uuid[], %(causes)s::text[], %(revisions)s::int[], %(rules)s::text[],
            %(skip_reasons)s::text[], %(sinces)s::timestamptz[], %(untils)s::timestamptz[],
            %(late_befores)s::timestamptz[], %(helds)s::boolean[], %(answered)s::text[])
       as a (tenant_id, schedule_uid, cause, revision, rule, skip_reason, since, until, late_before, is_held, answered);

-- name: lock_arrears
-- Arrears to be worked on, over all tenants, those first that have waited longest. SKIP LOCKED lets any number of
-- schedulers share them. Of one schedule only the oldest are taken, and pacing goes on where the last ones of it stopped:
-- so a rate holds however many there are.
select a.tenant_id, a.schedule_uid, a.arrears_id, a.cause, a.revision, a.rule::text as rule, a.skip_reason, a.since, a.until,
       a.as_of, a.late_before, a.rest_after, a.rest_until, a.begun, a.first_run, a.last_run,
       a.open_span::text as open_span,
       (select max(o.paced_until) from everwhen.arrears o
        where o.tenant_id = a.tenant_id and o.schedule_uid = a.schedule_uid) as paced_until,
       a.answered, a.runs, a.coalesced, a.skipped, a.missed, a.failures, a.last_error, a.look_at, a.finished_at
from everwhen.arrears a
where a.look_at <= %(now)s
  and not exists (
    select from everwhen.arrears o
    where o.tenant_id = a.tenant_id and o.schedule_uid = a.schedule_uid and o.arrears_id < a.arrears_id
      and o.look_at is not null and o.failures = 0)
order by a.look_at
limit %(limit)s
for no key update of a skip locked;

-- name: read_revision_specs
select r.uid, r.revision, r.spec::text as spec
from unnest(%(tenant_ids)s::uuid[], %(uids)s::uuid[], %(revisions)s::int[]) as w (tenant_id, uid, revision)
cross join lateral (
  select r.uid, r.revision, r.spec
  from everwhen.schedule_revisions r
  where r.tenant_id = w.tenant_id and r.uid = w.uid and r.revision = w.revision
  offset 0) r;

-- name: save_steps
-- What is left after a step. The caller holds the rows.
update everwhen.arrears a
set rest_after = (%(rest_afters)s::timestamptz[])[i], rest_until = (%(rest_untils)s::timestamptz[])[i], begun = true,
    first_run = (%(first_runs)s::timestamptz[])[i], last_run = (%(last_runs)s::timestamptz[])[i],
    open_span = ((%(open_spans)s::text[])[i])::jsonb, paced_until = (%(paced_untils)s::timestamptz[])[i],
    runs = (%(runs)s::bigint[])[i], coalesced = (%(coalesced)s::bigint[])[i], skipped = (%(skipped)s::bigint[])[i],
    missed = (%(missed)s::bigint[])[i], look_at = (%(look_ats)s::timestamptz[])[i], failures = 0, last_error = null,
    finished_at = case when (%(look_ats)s::timestamptz[])[i] is null then %(now)s::timestamptz end
from (
  select a.tenant_id, a.schedule_uid, a.arrears_id, array_position(%(arrears_ids)s::bigint[], a.arrears_id) as i
  from everwhen.arrears a
  where a.tenant_id = any(%(tenant_ids)s::uuid[]) and a.schedule_uid = any(%(schedule_uids)s::uuid[])
    and a.arrears_id = any(%(arrears_ids)s::bigint[])
  offset 0) s
where a.tenant_id = s.tenant_id and a.schedule_uid = s.schedule_uid and a.arrears_id = s.arrears_id;

-- name: put_off_arrears
-- Arrears that cannot be worked on are put off, with the error, so that they neither stop the others nor are forgotten.
update everwhen.arrears
set look_at = %(look_at)s, failures = failures + 1, last_error = %(error)s
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and arrears_id = %(arrears_id)s;

-- name: hold_arrears
-- A pause holds what is left of a schedule's arrears. Whoever is working on them commits first.
update everwhen.arrears
set look_at = null
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and finished_at is null;

-- name: release_arrears
-- A resumed schedule's arrears go on; what had no rule gets one, and its age is told from now.
update everwhen.arrears
set look_at = %(now)s, as_of = case when rule is null then %(now)s else as_of end, rule = coalesce(rule, %(rule)s::jsonb)
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and finished_at is null;

-- name: drop_arrears
-- A deleted schedule runs nothing more of its past. What a run is to stand for is counted already in part, and ends so;
-- everything else is recorded as skipped.
update everwhen.arrears
set look_at = %(now)s,
    rule = case when begun and rule ->> 'policy' = 'coalesce' then rule else '{"policy": "skip"}' end,
    skip_reason = case when begun and rule ->> 'policy' = 'coalesce' or rule is null then skip_reason else %(reason)s end,
    first_run = case when begun and rule ->> 'policy' = 'coalesce' then first_run end,
    last_run = case when begun and rule ->> 'policy' = 'coalesce' then last_run end
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and finished_at is null;

-- name: list_arrears
-- The arrears of a schedule, the newest first.
select tenant_id, schedule_uid, arrears_id, cause, revision, rule::text as rule, skip_reason, since, until, as_of,
       late_before, rest_after, rest_until, begun, first_run, last_run, open_span::text as open_span, paced_until,
       answered, runs, coalesced, skipped, missed, failures, last_error, look_at, finished_at
from everwhen.arrears
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and arrears_id < %(before)s
order by arrears_id desc
limit %(limit)s;

-- name: list_unfinished
-- What is left of a schedule's past, the oldest first.
select tenant_id, schedule_uid, arrears_id, cause, revision, rule::text as rule, skip_reason, since, until, as_of,
       late_before, rest_after, rest_until, begun, first_run, last_run, open_span::text as open_span, paced_until,
       answered, runs, coalesced, skipped, missed, failures, last_error, look_at, finished_at
from everwhen.arrears
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and finished_at is null
order by arrears_id
limit %(limit)s;

-- name: next_look
-- When the earliest arrears are to be worked on.
select look_at from everwhen.arrears where look_at is not null order by look_at limit 1;
