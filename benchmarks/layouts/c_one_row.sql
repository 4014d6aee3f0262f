-- Layout C with the end written on the row of the last attempt (a run that ends without one gets attempt 0).

-- name: ddl
drop table run_ends;
alter table attempts add column run_state text, add column run_reason text;

-- name: complete
with gone as (
  delete from leases l
  using unnest(%(tenants)b::uuid[], %(runs)b::uuid[], %(tokens)b::smallint[], %(states)b::text[]) d (tenant_id, run_id, attempt, state)
  where l.tenant_id = d.tenant_id and l.run_id = d.run_id and l.attempt = d.attempt
  returning l.tenant_id, l.run_id, l.attempt, l.worker, l.claimed_at, d.state),
tried as (
  insert into attempts (tenant_id, run_id, attempt, worker, claimed_at, finished_at, outcome, run_state)
  select tenant_id, run_id, attempt, worker, claimed_at, now(), state, state from gone),
logged as (insert into events (tenant_id, run_id, kind, attempt) select tenant_id, run_id, state, attempt from gone)
select run_id from gone
