-- name: put_template
-- Zero rows: it is another revision than the caller means (null: whatever is there, and if nothing is).
insert into everwhen.alert_templates as t (tenant_id, kind, part, source, updated_by, updated_at)
values (%(tenant_id)s, %(kind)s, %(part)s, %(source)s, %(updated_by)s, %(now)s)
on conflict (tenant_id, kind, part) do update
set source = excluded.source, updated_by = excluded.updated_by, updated_at = excluded.updated_at, revision = t.revision + 1
where %(among)s::int[] is null or t.revision = any(%(among)s::int[])
returning t.kind, t.part, t.source, t.revision, t.updated_by, t.updated_at;

-- name: get_template
select kind, part, source, revision, updated_by, updated_at
from everwhen.alert_templates
where tenant_id = %(tenant_id)s and kind = %(kind)s and part = %(part)s;

-- name: list_templates
-- All of them: there are only so many kinds and parts. Without the sources, which may be large.
select kind, part, octet_length(source) as bytes, updated_by, updated_at
from everwhen.alert_templates
where tenant_id = %(tenant_id)s
order by kind, part;

-- name: find_templates
-- What one message needs.
select kind, part, source, revision, updated_by, updated_at
from everwhen.alert_templates
where tenant_id = %(tenant_id)s and kind = any(%(kinds)s::text[]);

-- name: delete_template
delete from everwhen.alert_templates
where tenant_id = %(tenant_id)s and kind = %(kind)s and part = %(part)s
  and (%(among)s::int[] is null or revision = any(%(among)s::int[]));
