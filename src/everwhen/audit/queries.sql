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
