-- name: insert_calendar
-- A deleted one comes back under its name, and its versions go on counting; zero rows mean that the name is taken.
insert into everwhen.calendars as c (tenant_id, name, version, owner, created_at, updated_at)
values (%(tenant_id)s, %(name)s, 1, %(owner)s, %(now)s, %(now)s)
on conflict (tenant_id, name) do update
set version = c.version + 1, owner = %(owner)s, created_at = %(now)s, updated_at = %(now)s, deleted_at = null
where c.deleted_at is not null
returning version;

-- name: count_calendars
select count(*) as calendars from everwhen.calendars where tenant_id = %(tenant_id)s and deleted_at is null;

-- name: next_version
-- Zero rows: there is none, or it is another version than the caller means.
update everwhen.calendars
set version = version + 1, owner = case when %(has_owner)s then %(owner)s else owner end, updated_at = %(now)s
where tenant_id = %(tenant_id)s and name = %(name)s and deleted_at is null
  and (%(among)s::int[] is null or version = any(%(among)s::int[]))
returning version;

-- name: insert_version
insert into everwhen.calendar_versions
  (tenant_id, calendar, version, effective_from, definition, is_in_force, changed_by, reason, changed_at)
values
  (%(tenant_id)s, %(calendar)s, %(version)s, %(effective_from)s, %(definition)s::jsonb, true, %(changed_by)s,
   %(reason)s, %(now)s);

-- name: supersede
-- From its date on a later version stands for all earlier ones; without a date (null) for every one.
update everwhen.calendar_versions
set is_in_force = false
where tenant_id = %(tenant_id)s and calendar = %(calendar)s and version < %(version)s and is_in_force
  and (%(effective_from)s::date is null or effective_from >= %(effective_from)s::date);

-- name: count_in_force
select count(*) as versions
from everwhen.calendar_versions
where tenant_id = %(tenant_id)s and calendar = %(calendar)s and is_in_force;

-- name: get_calendar
select c.name, c.version, c.owner, v.effective_from, v.definition::text as definition, c.created_at, c.updated_at
from everwhen.calendars c
join everwhen.calendar_versions v on v.tenant_id = c.tenant_id and v.calendar = c.name and v.version = c.version
where c.tenant_id = %(tenant_id)s and c.name = %(name)s and c.deleted_at is null;

-- name: list_calendars
select c.name, c.version, c.owner, v.effective_from, c.created_at, c.updated_at
from everwhen.calendars c
join everwhen.calendar_versions v on v.tenant_id = c.tenant_id and v.calendar = c.name and v.version = c.version
where c.tenant_id = %(tenant_id)s and c.deleted_at is null and c.name > %(after)s
order by c.name
limit %(limit)s;

-- name: list_declared
-- With their definitions.
select c.name, c.version, c.owner, v.effective_from, v.definition::text as definition, c.created_at, c.updated_at
from everwhen.calendars c
join everwhen.calendar_versions v on v.tenant_id = c.tenant_id and v.calendar = c.name and v.version = c.version
where c.tenant_id = %(tenant_id)s and c.deleted_at is null and c.name > %(after)s
order by c.name
limit %(limit)s;

-- name: list_declared_of_owner
select c.name, c.version, c.owner, v.effective_from, v.definition::text as definition, c.created_at, c.updated_at
from everwhen.calendars c
join everwhen.calendar_versions v on v.tenant_id = c.tenant_id and v.calendar = c.name and v.version = c.version
where c.tenant_id = %(tenant_id)s and c.deleted_at is null and c.owner = %(owner)s and c.name > %(after)s
order by c.name
limit %(limit)s;

-- name: list_declared_named
select c.name, c.version, c.owner, v.effective_from, v.definition::text as definition, c.created_at, c.updated_at
from unnest(%(names)s::text[]) n (name)
cross join lateral (
  select c.* from everwhen.calendars c
  where c.tenant_id = %(tenant_id)s and c.name = n.name and c.deleted_at is null offset 0) c
cross join lateral (
  select v.effective_from, v.definition from everwhen.calendar_versions v
  where v.tenant_id = %(tenant_id)s and v.calendar = c.name and v.version = c.version offset 0) v
order by c.name;

-- name: list_versions
select version, effective_from, is_in_force, changed_by, reason, changed_at
from everwhen.calendar_versions
where tenant_id = %(tenant_id)s and calendar = %(calendar)s and version > %(after)s
order by version
limit %(limit)s;

-- name: get_version
select definition::text as definition
from everwhen.calendar_versions
where tenant_id = %(tenant_id)s and calendar = %(calendar)s and version = %(version)s;

-- name: lock_calendar
-- For a change or its deletion: whoever begins to use it meanwhile holds it in share mode, and is waited for.
select version from everwhen.calendars
where tenant_id = %(tenant_id)s and name = %(name)s and deleted_at is null
for no key update;

-- name: delete_calendar
update everwhen.calendars
set deleted_at = %(now)s, updated_at = %(now)s
where tenant_id = %(tenant_id)s and name = %(name)s and deleted_at is null;

-- name: end_versions
update everwhen.calendar_versions
set is_in_force = false
where tenant_id = %(tenant_id)s and calendar = %(calendar)s and is_in_force;

-- name: users_of
select s.name
from everwhen.calendar_users u
join everwhen.schedules s on s.tenant_id = u.tenant_id and s.uid = u.schedule_uid
where u.tenant_id = %(tenant_id)s and u.calendar = %(calendar)s and s.state <> 'deleted'
order by s.name
limit %(limit)s;

-- name: share_calendars
-- A schedule that begins to use calendars holds them until it has said so: a change waits, and then finds it among the
-- users. In the order of the key, as whoever takes several locks.
select tenant_id, name, version
from everwhen.calendars
where tenant_id = %(tenant_id)s and name = any(%(names)s::text[]) and deleted_at is null
order by name
for share;

-- name: find_calendars
-- What the planner's batch needs, over all tenants, each by its key.
select c.tenant_id, c.name, c.version
from unnest(%(tenant_ids)s::uuid[], %(names)s::text[]) as w (tenant_id, name)
cross join lateral (
  select c.tenant_id, c.name, c.version
  from everwhen.calendars c
  where c.tenant_id = w.tenant_id and c.name = w.name and c.deleted_at is null
  offset 0) c;

-- name: read_in_force
select v.tenant_id, v.calendar, v.version, v.effective_from, v.definition::text as definition, v.changed_at
from unnest(%(tenant_ids)s::uuid[], %(names)s::text[]) as w (tenant_id, name)
cross join lateral (
  select v.tenant_id, v.calendar, v.version, v.effective_from, v.definition, v.changed_at
  from everwhen.calendar_versions v
  where v.tenant_id = w.tenant_id and v.calendar = w.name and v.is_in_force
  offset 0) v;

-- name: read_as_of_version
-- The versions of a calendar that decided about some day while this one was the latest.
select v.tenant_id, v.calendar, v.version, v.effective_from, v.definition::text as definition, v.changed_at
from everwhen.calendars c
join everwhen.calendar_versions v
  on v.tenant_id = c.tenant_id and v.calendar = c.name and v.changed_at >= c.created_at and v.version <= %(version)s
where c.tenant_id = %(tenant_id)s and c.name = %(name)s and not exists (
  select from everwhen.calendar_versions l
  where l.tenant_id = v.tenant_id and l.calendar = v.calendar and l.version > v.version and l.version <= %(version)s
    and (l.effective_from is null or l.effective_from <= v.effective_from));

-- name: insert_users
insert into everwhen.calendar_users (tenant_id, calendar, schedule_uid)
select %(tenant_id)s, calendar, %(schedule_uid)s
from unnest(%(calendars)s::text[]) as calendar
order by calendar
on conflict do nothing;

-- name: delete_users
delete from everwhen.calendar_users
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and calendar <> all(%(kept)s::text[]);

-- name: mark_changed
-- Before the calendar itself is locked, so that whoever works changes off and waits for a schedule never stands in the
-- way of whoever changes that schedule and waits for the calendar. Of several changes that nobody has followed yet the
-- first one says what was in force before.
insert into everwhen.calendar_changes (tenant_id, calendar, after_uid, version, changed_at)
select tenant_id, name, '00000000-0000-0000-0000-000000000000', version, %(now)s
from everwhen.calendars
where tenant_id = %(tenant_id)s and name = %(calendar)s and deleted_at is null
on conflict (tenant_id, calendar) do update set after_uid = excluded.after_uid;

-- name: take_change
select tenant_id, calendar, after_uid, version, changed_at
from everwhen.calendar_changes
order by tenant_id, calendar
limit 1
for update skip locked;

-- name: page_users
select schedule_uid
from everwhen.calendar_users
where tenant_id = %(tenant_id)s and calendar = %(calendar)s and schedule_uid > %(after_uid)s
order by schedule_uid
limit %(limit)s;

-- name: move_change
update everwhen.calendar_changes
set after_uid = %(after_uid)s
where tenant_id = %(tenant_id)s and calendar = %(calendar)s;

-- name: end_change
delete from everwhen.calendar_changes where tenant_id = %(tenant_id)s and calendar = %(calendar)s;
