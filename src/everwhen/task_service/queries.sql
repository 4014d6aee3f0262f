-- name: insert_task
-- Of two posts of the same dedup_id the second waits here for the first one's commit, and then finds it: no row.
insert into everwhen.service_tasks
  (tenant_id, id, owner, dedup_id, cron, run_at, delay_seconds, priority, digest, payload_name, created_at, updated_at)
values
  (%(tenant_id)s, %(task_id)s, %(owner)s, %(dedup_id)s, %(cron)s, %(run_at)s, %(delay_seconds)s, %(priority)s, %(digest)s,
   %(payload_name)s, %(now)s, %(now)s)
on conflict (tenant_id, owner, dedup_id) where deleted_at is null do nothing
returning id, owner, dedup_id, schedule_uid, cron, run_at, delay_seconds, priority, digest, payload_name, is_enabled,
  created_at, updated_at, deleted_at;

-- name: set_schedule
update everwhen.service_tasks set schedule_uid = %(schedule_uid)s where tenant_id = %(tenant_id)s and id = %(task_id)s;

-- name: find_task
select id, owner, dedup_id, schedule_uid, cron, run_at, delay_seconds, priority, digest, payload_name, is_enabled,
  created_at, updated_at, deleted_at
from everwhen.service_tasks
where tenant_id = %(tenant_id)s and owner = %(owner)s and dedup_id = %(dedup_id)s and deleted_at is null;

-- name: get_task
select id, owner, dedup_id, schedule_uid, cron, run_at, delay_seconds, priority, digest, payload_name, is_enabled,
  created_at, updated_at, deleted_at
from everwhen.service_tasks
where tenant_id = %(tenant_id)s and id = %(task_id)s;

-- name: lock_task
-- One change of a task after the other; a deleted one is changed no more.
select id, owner, dedup_id, schedule_uid, cron, run_at, delay_seconds, priority, digest, payload_name, is_enabled,
  created_at, updated_at, deleted_at
from everwhen.service_tasks
where tenant_id = %(tenant_id)s and id = %(task_id)s and deleted_at is null
for no key update;

-- name: list_tasks
-- Of one user along an index of their own, or everybody's.
select t.id, t.owner, t.dedup_id, t.schedule_uid, t.cron, t.run_at, t.delay_seconds, t.priority, t.digest, t.payload_name,
  t.is_enabled, t.created_at, t.updated_at, t.deleted_at
from (
  (select * from everwhen.service_tasks
   where tenant_id = %(tenant_id)s and owner = %(owner)s::text and deleted_at is null and id > %(after)s
   order by id
   limit %(limit)s)
  union all
  (select * from everwhen.service_tasks
   where %(owner)s::text is null and tenant_id = %(tenant_id)s and deleted_at is null and id > %(after)s
   order by id
   limit %(limit)s)) t
order by t.id
limit %(limit)s;

-- name: update_task
update everwhen.service_tasks
set cron = %(cron)s, run_at = %(run_at)s, delay_seconds = %(delay_seconds)s, priority = %(priority)s, digest = %(digest)s,
    payload_name = %(payload_name)s, is_enabled = %(is_enabled)s, deleted_at = %(deleted_at)s, updated_at = %(now)s
where tenant_id = %(tenant_id)s and id = %(task_id)s;
