-- Layout C: as B, and the end is a row of its own: `runs` is never updated.

-- name: ddl
alter table runs drop column state, drop column reason, drop column finished_at;

-- name: complete
with gone as (
  delete from leases l
  using unnest(%(tenants)b::uuid[], %(runs)b::uuid[], %(tokens)b::smallint[], %(states)b::text[]) d (tenant_id, run_id, attempt, state)
  where l.tenant_id = d.tenant_id and l.run_id = d.run_id and l.attempt = d.attempt
  returning l.tenant_id, l.run_id, l.attempt, l.queue, l.worker, l.claimed_at, d.state),
tried as (
  insert into attempts (tenant_id, run_id, attempt, worker, claimed_at, finished_at, outcome)
  select tenant_id, run_id, attempt, worker, claimed_at, now(), state from gone),
ended as (
  insert into run_ends (tenant_id, run_id, state, finished_at, attempt) select tenant_id, run_id, state, now(), attempt from gone),
logged as (insert into events (tenant_id, run_id, kind, attempt) select tenant_id, run_id, state, attempt from gone)
select run_id from gone
