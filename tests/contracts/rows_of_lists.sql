-- From `$first` to `$last` of everything that a list of the API shows, and of what lists pass over: see
-- test_plans_of_lists.py.

insert into everwhen.tenants select everwhen.first_run_id(now() + n * interval '1 s'), 'zz-' || n, now()
from generate_series($first, $last) n;
insert into everwhen.tasks (tenant_id, name, queue, priority, retry, created_at, updated_at, tags)
select '$tenant', kind || n, case kind when 't' then 'line' else 'everwhen:workflows' end, 5, '$retry', now(), now(), '{all}'
from generate_series($first, $last) n, unnest(array['t', 'workflow:w']) kind;
insert into everwhen.workflows (tenant_id, name, version, created_at, updated_at, tags)
select '$tenant', 'w' || n, 1, now(), now(), '{all}' from generate_series($first, $last) n;
insert into everwhen.schedules (tenant_id, uid, name, state, revision, task, spec, input, created_at, updated_at, tags)
select '$tenant', gen_random_uuid(), kind || n, case kind when 's' then 'active' else 'deleted' end, 1, 'report',
       '$spec',
       '{}', now(), now(), '{all}'
from generate_series($first, $last) n, unnest(array['s', 'z']) kind;
insert into everwhen.watermarks (tenant_id, schedule_uid, decided_until, next_at)
select tenant_id, uid, now(), now() from everwhen.schedules on conflict do nothing;
insert into everwhen.tagged select '$tenant', kind, 'all', prefix || n
from generate_series($first, $last) n,
     (values ('schedule', 's'), ('task', 't'), ('workflow', 'w')) k (kind, prefix);
insert into everwhen.schedule_revisions (tenant_id, uid, revision, action, task, spec, input, changed_by, changed_at)
select '$tenant', '$schedule', n + 1, 'updated', 'report', spec, '{}', 'x', now()
from generate_series($first, $last) n, everwhen.schedules s where s.uid = '$schedule';
insert into everwhen.arrears (tenant_id, schedule_uid, cause, revision, rule, skip_reason, since, until, as_of,
                              late_before, rest_after, rest_until, finished_at)
select '$tenant', '$schedule', 'outage', 1, '{"policy": "skip"}', 'catchup.skip', '$now',
       timestamptz '$now' + interval '1 s', '$now', '$now', '$now', '$now', '$now'
from generate_series($first, $last) n;
insert into everwhen.lanes (tenant_id, queue) select '$tenant', 'q' || n from generate_series($first, $last) n;
insert into everwhen.queues (tenant_id, name, tags, owner, created_at, updated_at, deleted_at)
select '$tenant', 'q' || n, '{all}', 'x', now(), now(), case when n % 2 = 1 then now() end from generate_series($first, $last) n;
insert into everwhen.calendars (tenant_id, name, version, created_at, updated_at, deleted_at)
select '$tenant', kind || n, 1, now(), now(), case kind when 'z' then now() end
from generate_series($first, $last) n, unnest(array['c', 'z']) kind;
insert into everwhen.calendar_versions (tenant_id, calendar, version, definition, is_in_force, changed_by, changed_at)
select tenant_id, name, 1, '{}', true, 'x', now() from everwhen.calendars on conflict do nothing;
insert into everwhen.calendar_versions (tenant_id, calendar, version, definition, is_in_force, changed_by, changed_at)
select '$tenant', 'c1', n + 1, '{}', false, 'x', now() from generate_series($first, $last) n;
insert into everwhen.workflow_versions (tenant_id, workflow, version, definition, changed_by, changed_at)
select '$tenant', 'flow', n + 1, '{}', 'x', now() from generate_series($first, $last) n;
insert into everwhen.workflow_nodes (tenant_id, run_id, node, instance, state)
select '$tenant', '$workflow_run', 'a', n, 'blocked' from generate_series($first, $last) n;
insert into everwhen.runs (tenant_id, run_id, source, schedule_uid, task, queue, priority, due_at, planned_at, input)
select '$tenant', (substr(everwhen.first_run_id('$now')::text, 1, 14) || '8' || lpad(to_hex(n), 3, '0') || '-8000-000000000001')::uuid, 'api', '$schedule', 'report', 'line', 5, '$now', '$now', '{}'
from generate_series($first, $last) n;
insert into everwhen.run_ends (tenant_id, run_id, state, reason, attempts, finished_at, fingerprint)
select '$tenant', (substr(everwhen.first_run_id('$now')::text, 1, 14) || '8' || lpad(to_hex(n), 3, '0') || '-8000-000000000001')::uuid, case when n % 2 = 0 then 'dead' else 'succeeded' end, null, 1, '$now',
       case n % 4 when 0 then 'big' when 2 then 'f' || n % 800 end
from generate_series($first, $last) n;
insert into everwhen.dead_letters (tenant_id, run_id, state, changed_by, changed_at)
select '$tenant', (substr(everwhen.first_run_id('$now')::text, 1, 14) || '8' || lpad(to_hex(n), 3, '0') || '-8000-000000000001')::uuid, 'dismissed', 'x', now() from generate_series($first, $last) n
where n % 2 = 0 and n % 800 between 400 and 798;
insert into everwhen.runs (tenant_id, run_id, source, task, queue, priority, due_at, planned_at, input)
select '$tenant', (substr(everwhen.first_run_id('$now')::text, 1, 14) || '8' || lpad(to_hex(n), 3, '0') || '-8000-000000000002')::uuid, 'api', 'report', 'line', 5, '$now', '$now', '{}'
from generate_series($first, $last) n;
insert into everwhen.waiting (tenant_id, queue, priority, available_at, run_id, task, failures)
select '$tenant', 'line', 5, '$now', (substr(everwhen.first_run_id('$now')::text, 1, 14) || '8' || lpad(to_hex(n), 3, '0') || '-8000-000000000002')::uuid, 'report', 0 from generate_series($first, $last) n;
insert into everwhen.events (tenant_id, run_id, at, kind)
select '$tenant', '$workflow_run', '$now', 'planned' from generate_series($first, $last) n;
insert into everwhen.findings (tenant_id, kind, subject, since, opened_at, seen_at, closed_at, detail)
select '$tenant', 'schedule.overdue', 'x' || n, now(), now(), now(), case when n > 300 then now() end, '{}'
from generate_series($first, $last) n order by n;
insert into everwhen.findings (tenant_id, kind, subject, since, opened_at, seen_at, closed_at, detail)
select id, 'schedule.overdue', 'x', now(), now(), now(), now(), '{}' from everwhen.tenants where name like 'zz-%';
insert into everwhen.operations (tenant_id, id, kind, state, request, requested_by, reason, created_at, changed_by,
  changed_at, moved_at, total, canary_passed, listed, listed_count, rate_at, seen_seq)
select '$tenant', everwhen.first_run_id('$now'::timestamptz + n * interval '1 s'), 'redrive', 'succeeded', '$request', 'a', 'b', now(), 'a', now(), now(), 1,
       true, '', 0, now(), 0 from generate_series($first, $last) n;
insert into everwhen.members (tenant_id, subject, roles, added_by, added_at, changed_by, changed_at)
select '$tenant', 'sso:' || n, array['viewer'], 'x', now(), 'x', now() from generate_series($first, $last) n;
insert into everwhen.service_tokens (tenant_id, token_id, name, roles, secret_hash, created_by, created_at, issued_at,
                                     expires_at, revoked_at)
select '$tenant', everwhen.first_run_id('$now'::timestamptz + n * interval '1 s'), 'n' || n, array['viewer'], sha256(n::text::bytea), 'x', now(), now(), now(),
       now() from generate_series($first, $last) n;
insert into everwhen.revocations (tenant_id, kind, value, issued_until, reason, revoked_by, revoked_at, expires_at)
select scope, 'subject', 'v' || n, now(), 'x', 'x', now(), now() + interval '1 d'
from generate_series($first, $last) n, unnest(array['$tenant'::uuid, '00000000-0000-0000-0000-000000000000']) scope;
insert into everwhen.alert_channels (tenant_id, name, kind, configuration, state, window_seconds, created_by,
                                     created_at, updated_at)
select '$tenant', 'ch' || n, 'webhook', '{"url": "https://x.test/"}', 'enabled', 0, 'x', now(), now()
from generate_series($first, $last) n;
insert into everwhen.alert_subscriptions (tenant_id, name, scope, kinds, filter, after_failures, pierces, is_enabled,
                                          created_by, created_at, updated_at)
select '$tenant', 'su' || n, 'tenant', array['run.dead'], '', 1, false, true, 'x', now(), now()
from generate_series($first, $last) n;
insert into everwhen.alert_deliveries (tenant_id, delivery_id, channel, recipient, state, subscriptions, total, counts,
  shown, window_from, window_to, created_at, due_at, finished_at)
select '$tenant', everwhen.first_run_id('$now'::timestamptz + n * interval '1 s'), 'ch1', '', 'delivered', '[]', 1,
       '{}', '[]', now(), now(), '$now'::timestamptz + n * interval '1 s', now(), now() from generate_series($first, $last) n;
insert into everwhen.pauses (tenant_id, queue, reason, paused_by, paused_at)
select '$tenant', 'q' || n, 'x', 'x', now() from generate_series($first, $last) n;
insert into everwhen.pause_changes (tenant_id, queue, action, changed_by, changed_at)
select '$tenant', 'q' || n, 'paused', 'x', now() from generate_series($first, $last) n;
insert into everwhen.payloads (tenant_id, digest, object_id, size_bytes, pieces, created_by, created_at)
select '$tenant', 'sha256:' || encode(sha256(n::text::bytea), 'hex'), '$schedule', 1, 1, 'x', now()
from generate_series($first, $last) n;
insert into everwhen.service_tasks (tenant_id, id, owner, dedup_id, schedule_uid, cron, priority, digest, created_at,
                                    updated_at)
select '$tenant', everwhen.first_run_id('$now'::timestamptz + n * interval '2 s' + length(who) * interval '1 s'), who, 'd' || n, uid, '* * * * *', 5, 'd', now(), now()
from everwhen.schedules s, generate_series($first, $last) n, unnest(array['tester', 'zed']) who where s.name = 's1';
insert into everwhen.workers (tenant_id, worker_id, instance, name, slots, tasks, queues, labels, resources, announced_at,
                              last_seen_at, held, in_use, heard, is_stopping)
select scope, everwhen.first_run_id('$now'::timestamptz + n * interval '1 s'), gen_random_uuid(), 'w' || n, 1, '{report}',
       '{q}', '{}', '{}', now(), now(), 0, '{}', 'active', false
from generate_series($first, $last) n, unnest(array['$tenant'::uuid, '00000000-0000-0000-0000-000000000000']) scope;

insert into everwhen.operation_items (tenant_id, operation_id, seq, name)
select '$tenant', '$schedule', n, 's' || n from generate_series($first, $last) n;
insert into everwhen.runs (tenant_id, run_id, source, task, queue, priority, due_at, planned_at, input)
select '$tenant', everwhen.first_run_id('$now'::timestamptz + n * interval '1 s' + interval '0.5 s'), 'api',
       'workflow:flow', 'everwhen:workflows', 5, '$now'::timestamptz + n * interval '1 s', '$now', '{}'
from generate_series($first, $last) n;
insert into everwhen.run_ends (tenant_id, run_id, state, attempts, finished_at)
select '$tenant', everwhen.first_run_id('$now'::timestamptz + n * interval '1 s' + interval '0.5 s'), 'succeeded', 1,
       '$now'
from generate_series($first, $last) n;
insert into everwhen.workflow_versions (tenant_id, workflow, version, definition, changed_by, changed_at)
select '$tenant', 'w' || n, 1, '{"nodes": [{"id": "a", "task": "report"}]}', 'x', now()
from generate_series($first, $last) n;
