-- Layout B: narrow waiting and lease rows; the wide row is updated once, at the end.

-- name: ddl
drop table run_ends;

-- name: complete
with gone as (
  delete from leases l
  using unnest(%(tenants)b::uuid[], %(runs)b::uuid[], %(tokens)b::smallint[], %(states)b::text[]) d (tenant_id, run_id, attempt, state)
  where l.tenant_id = d.tenant_id and l.run_id = d.run_id and l.attempt = d.attempt
  returning l.tenant_id, l.run_id, l.attempt, l.worker, l.claimed_at, d.state),
tried as (
  insert into attempts (tenant_id, run_id, attempt, worker, claimed_at, finished_at, outcome)
  select tenant_id, run_id, attempt, worker, claimed_at, now(), state from gone),
ended as (
  update runs r set state = g.state, finished_at = now() from gone g where r.tenant_id = g.tenant_id and r.run_id = g.run_id),
logged as (insert into events (tenant_id, run_id, kind, attempt) select tenant_id, run_id, state, attempt from gone)
select run_id from gone
