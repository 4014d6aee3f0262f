-- The audit. Events and links are inserted and read, and nothing else: grants and triggers see to that.

-- name: ensure_week
select everwhen.ensure_audit_week(%(instant)s) as made;

-- name: hold_resource
-- Whoever changes a resource through the API waits here for who was first, so that what it was before is looked at when
-- nobody else is changing it.
select pg_advisory_xact_lock(%(number)s)::text as held;

-- name: insert_event
-- With its mark in the sealer's hot set, in one round trip.
with told as (
  insert into everwhen.audit_events
    (tenant_id, event_id, at, actor, operation, resource, outcome, request_id, record)
  values
    (%(tenant_id)s, %(event_id)s, %(at)s, %(actor)s, %(operation)s, %(resource)s, %(outcome)s, %(request_id)s,
     %(record)s)
  returning tenant_id, event_id, at)
insert into everwhen.audit_unsealed (tenant_id, event_id, at)
select tenant_id, event_id, at from told;

-- name: page_events
-- Of each of these lists: newest first, from the partition that the bounds begin in. What an index does not serve is
-- checked row by row.
select e.event_id, e.record, l.seq, l.epoch, l.hash
from everwhen.audit_events e
left join lateral (
  select l.seq, l.epoch, l.hash from everwhen.audit_links l
  where l.tenant_id = e.tenant_id and l.event_id = e.event_id offset 0) l on true
where e.tenant_id = %(tenant_id)s and e.event_id < %(before)s and e.event_id >= %(since)s
  and (%(outcome)s::text is null or e.outcome = %(outcome)s)
order by e.event_id desc
limit %(limit)s;

-- name: page_by_actor
select e.event_id, e.record, l.seq, l.epoch, l.hash
from everwhen.audit_events e
left join lateral (
  select l.seq, l.epoch, l.hash from everwhen.audit_links l
  where l.tenant_id = e.tenant_id and l.event_id = e.event_id offset 0) l on true
where e.tenant_id = %(tenant_id)s and e.actor = %(actor)s and e.event_id < %(before)s and e.event_id >= %(since)s
  and (%(operation)s::text is null or e.operation = %(operation)s)
  and (%(outcome)s::text is null or e.outcome = %(outcome)s)
order by e.event_id desc
limit %(limit)s;

-- name: page_by_operation
select e.event_id, e.record, l.seq, l.epoch, l.hash
from everwhen.audit_events e
left join lateral (
  select l.seq, l.epoch, l.hash from everwhen.audit_links l
  where l.tenant_id = e.tenant_id and l.event_id = e.event_id offset 0) l on true
where e.tenant_id = %(tenant_id)s and e.operation = %(operation)s and e.event_id < %(before)s and e.event_id >= %(since)s
  and (%(outcome)s::text is null or e.outcome = %(outcome)s)
order by e.event_id desc
limit %(limit)s;

-- name: page_by_resource
select e.event_id, e.record, l.seq, l.epoch, l.hash
from everwhen.audit_events e
left join lateral (
  select l.seq, l.epoch, l.hash from everwhen.audit_links l
  where l.tenant_id = e.tenant_id and l.event_id = e.event_id offset 0) l on true
where e.tenant_id = %(tenant_id)s and e.resource = %(resource)s and e.event_id < %(before)s and e.event_id >= %(since)s
  and (%(actor)s::text is null or e.actor = %(actor)s)
  and (%(operation)s::text is null or e.operation = %(operation)s)
  and (%(outcome)s::text is null or e.outcome = %(outcome)s)
order by e.event_id desc
limit %(limit)s;

-- name: page_by_request
select e.event_id, e.record, l.seq, l.epoch, l.hash
from everwhen.audit_events e
left join lateral (
  select l.seq, l.epoch, l.hash from everwhen.audit_links l
  where l.tenant_id = e.tenant_id and l.event_id = e.event_id offset 0) l on true
where e.tenant_id = %(tenant_id)s and e.request_id = %(request_id)s
  and e.event_id < %(before)s and e.event_id >= %(since)s
  and (%(actor)s::text is null or e.actor = %(actor)s)
  and (%(resource)s::text is null or e.resource = %(resource)s)
  and (%(operation)s::text is null or e.operation = %(operation)s)
  and (%(outcome)s::text is null or e.outcome = %(outcome)s)
order by e.event_id desc
limit %(limit)s;

-- name: get_event
select e.event_id, e.record, l.seq, l.epoch, l.hash
from everwhen.audit_events e
left join lateral (
  select l.seq, l.epoch, l.hash from everwhen.audit_links l
  where l.tenant_id = e.tenant_id and l.event_id = e.event_id offset 0) l on true
where e.tenant_id = %(tenant_id)s and e.event_id = %(event_id)s;

-- name: find_unsealed
-- The tenants that have something to be chained, one look at the index for each, whatever lies there of one of them.
with recursive tenants (tenant_id) as (
  (select u.tenant_id from everwhen.audit_unsealed u order by u.tenant_id, u.event_id limit 1)
  union all
  (select next.tenant_id from tenants t cross join lateral (
     select u.tenant_id from everwhen.audit_unsealed u where u.tenant_id > t.tenant_id
     order by u.tenant_id, u.event_id limit 1) next))
select tenant_id from tenants limit %(limit)s;

-- name: ensure_heads
insert into everwhen.audit_heads (tenant_id, seq, hash)
select tenant_id, 0, hash from unnest(%(tenant_ids)s::uuid[], %(hashes)s::bytea[]) as h (tenant_id, hash)
on conflict (tenant_id) do nothing;

-- name: lock_heads
-- What another sealer holds is its own for now.
select h.tenant_id, h.seq, h.hash
from everwhen.audit_heads h
where h.tenant_id = any(%(tenant_ids)s::uuid[])
order by h.tenant_id
for update skip locked;

-- name: take_unsealed
-- After the heads are locked: what this snapshot sees is not being chained by anybody else. An event whose row is gone
-- stays where it is, for whoever verifies.
select u.tenant_id, u.event_id, e.record
from unnest(%(tenant_ids)s::uuid[]) as t (tenant_id)
cross join lateral (
  select u.tenant_id, u.event_id from everwhen.audit_unsealed u
  where u.tenant_id = t.tenant_id order by u.event_id limit %(limit)s) u
cross join lateral (
  select e.record from everwhen.audit_events e
  where e.tenant_id = u.tenant_id and e.event_id = u.event_id offset 0) e
order by u.tenant_id, u.event_id;

-- name: insert_links
insert into everwhen.audit_links (tenant_id, event_id, seq, epoch, hash)
select tenant_id, event_id, seq, %(epoch)s, hash
from unnest(%(tenant_ids)s::uuid[], %(event_ids)s::uuid[], %(seqs)s::bigint[], %(hashes)s::bytea[])
  as l (tenant_id, event_id, seq, hash);

-- name: drop_unsealed
delete from everwhen.audit_unsealed u
using unnest(%(tenant_ids)s::uuid[], %(event_ids)s::uuid[]) as l (tenant_id, event_id)
where u.tenant_id = l.tenant_id and u.event_id = l.event_id;

-- name: move_heads
update everwhen.audit_heads h
set seq = n.seq, hash = n.hash, epoch = %(epoch)s
from unnest(%(tenant_ids)s::uuid[], %(seqs)s::bigint[], %(hashes)s::bytea[]) as n (tenant_id, seq, hash)
where h.tenant_id = n.tenant_id and h.seq < n.seq;

-- name: find_server
-- Which server this is, and which timeline of it: a standby that is promoted begins another one.
select (select system_identifier from pg_control_system())::text as server,
       left(pg_walfile_name(pg_current_wal_lsn()), 8) as timeline;

-- name: find_epoch
select e.epoch from everwhen.audit_epochs e where e.server = %(server)s and e.timeline = %(timeline)s;

-- name: begin_epoch
-- Nothing where another sealer has begun it.
insert into everwhen.audit_epochs (epoch, server, timeline, began_at)
values (%(epoch)s, %(server)s, %(timeline)s, %(now)s)
on conflict (server, timeline) do nothing;

-- name: read_backlog
select count(*) as unsealed, min(u.at) as oldest_at from everwhen.audit_unsealed u;

-- name: list_chains
-- Whose chains there are, one look at the index for each; a head that somebody has taken away hides no chain.
with recursive chained (tenant_id) as (
  (select l.tenant_id from everwhen.audit_links l order by l.tenant_id, l.seq limit 1)
  union all
  (select next.tenant_id from chained c cross join lateral (
     select l.tenant_id from everwhen.audit_links l where l.tenant_id > c.tenant_id
     order by l.tenant_id, l.seq limit 1) next))
select c.tenant_id, t.name
from (select tenant_id from chained union select h.tenant_id from everwhen.audit_heads h) c
left join everwhen.tenants t on t.id = c.tenant_id
order by c.tenant_id;

-- name: find_head
select h.seq, h.epoch, h.hash from everwhen.audit_heads h where h.tenant_id = %(tenant_id)s;

-- name: read_chain
-- A stretch of the chain in its order, each link with its event; a link whose event is gone is there without one. A place
-- may be there twice, so a page goes on behind a link and not behind a number. The stretch is bounded, not the page only:
-- whatever the statistics say, no page reads and sorts all that is left.
select l.seq, l.event_id, l.epoch, l.hash, e.record, e.at, e.actor, e.operation, e.resource, e.outcome, e.request_id
from (
  select l.seq, l.event_id, l.epoch, l.hash from everwhen.audit_links l
  where l.tenant_id = %(tenant_id)s and l.seq between %(seq)s and %(last)s
    and (l.seq, l.epoch, l.event_id) > (%(seq)s, %(epoch)s, %(event_id)s)
  order by l.seq, l.epoch, l.event_id
  limit %(limit)s) l
left join lateral (
  select e.record, e.at, e.actor, e.operation, e.resource, e.outcome, e.request_id from everwhen.audit_events e
  where e.tenant_id = %(tenant_id)s and e.event_id = l.event_id offset 0) e on true
order by l.seq, l.epoch, l.event_id;

-- name: find_place
-- The next place behind a gap.
select l.seq from everwhen.audit_links l
where l.tenant_id = %(tenant_id)s and l.seq >= %(seq)s
order by l.tenant_id, l.seq limit 1;

-- name: page_placed
-- In one snapshot, for each event: whether it has a link, or waits for one. One look at an index for each, by `offset 0`.
select e.event_id, l.event_id is not null or u.event_id is not null as is_placed
from (
  select e.event_id from everwhen.audit_events e
  where e.tenant_id = %(tenant_id)s and e.event_id > %(after)s
  order by e.event_id limit %(limit)s) e
left join lateral (
  select l.event_id from everwhen.audit_links l
  where l.tenant_id = %(tenant_id)s and l.event_id = e.event_id offset 0) l on true
left join lateral (
  select u.event_id from everwhen.audit_unsealed u
  where u.tenant_id = %(tenant_id)s and u.event_id = e.event_id offset 0) u on true
order by e.event_id;

-- name: find_lost
-- What waits for a link and is not there.
select u.event_id from everwhen.audit_unsealed u
left join lateral (
  select e.event_id from everwhen.audit_events e
  where e.tenant_id = u.tenant_id and e.event_id = u.event_id offset 0) e on true
where u.tenant_id = %(tenant_id)s and e.event_id is null
limit %(limit)s;

-- name: claim_unanchored
-- Chains that have gone on since they were noted outside, and those that were noted long ago, whose notes are repeated.
-- Whoever claims one has it for a while; a note that is made twice is no harm.
with due as (
  select h.tenant_id from everwhen.audit_heads h
  where h.anchored_at <= %(noted_before)s and h.seq > 0 and h.epoch is not null
    and (h.seq <> h.anchored or h.anchored_at <= %(repeat_before)s)
    and (h.held_until is null or h.held_until <= %(now)s)
  order by h.anchored_at
  limit %(limit)s
  for update skip locked)
update everwhen.audit_heads h
set held_until = %(held_until)s
from due
where h.tenant_id = due.tenant_id
returning h.tenant_id, h.seq, h.epoch, h.hash, h.anchored, h.anchored_hash;

-- name: mark_anchored
-- Only forward: somebody else may have noted more meanwhile. What is not whole yet is due again at once.
update everwhen.audit_heads h
set anchored = n.seq, anchored_hash = n.hash, held_until = null, fault = null,
    anchored_at = case when n.is_whole then %(now)s else h.anchored_at end
from unnest(%(tenant_ids)s::uuid[], %(seqs)s::bigint[], %(hashes)s::bytea[], %(whole)s::boolean[])
  as n (tenant_id, seq, hash, is_whole)
where h.tenant_id = n.tenant_id and h.anchored <= n.seq;

-- name: hold_chains
-- A place is away: leave these alone for a while.
update everwhen.audit_heads h set held_until = %(held_until)s where h.tenant_id = any(%(tenant_ids)s::uuid[]);

-- name: mark_broken
-- Its hold stays, so it is looked at again when that is over.
update everwhen.audit_heads h
set fault = n.fault
from unnest(%(tenant_ids)s::uuid[], %(faults)s::text[]) as n (tenant_id, fault)
where h.tenant_id = n.tenant_id;

-- name: read_standing
select count(*) as chains, count(*) filter (where h.seq <> h.anchored) as unanchored,
       count(*) filter (where h.fault is not null) as broken,
       max(h.anchored_at) filter (where h.anchored > 0) as noted_at
from everwhen.audit_heads h where h.seq > 0;
