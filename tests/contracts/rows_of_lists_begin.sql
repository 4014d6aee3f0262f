-- What the rows of rows_of_lists.sql hang on.

insert into everwhen.schedules (tenant_id, uid, name, state, revision, task, spec, input, created_at, updated_at)
values ('$tenant', '$schedule', 'nightly', 'active', 1, 'report',
        '$spec',
        '{}', now(), now());
insert into everwhen.watermarks (tenant_id, schedule_uid, decided_until) values ('$tenant', '$schedule', now());
insert into everwhen.schedule_revisions (tenant_id, uid, revision, action, task, spec, input, changed_by, changed_at)
select tenant_id, uid, 1, 'created', task, spec, '{}', 'x', now() from everwhen.schedules;
insert into everwhen.payload_objects (tenant_id, id, state, opened_by, opened_at)
values ('$tenant', '$schedule', 'kept', 'x', now());
insert into everwhen.workflows (tenant_id, name, version, created_at, updated_at)
values ('$tenant', 'flow', 1, now(), now());
insert into everwhen.workflow_versions (tenant_id, workflow, version, definition, changed_by, changed_at)
values ('$tenant', 'flow', 1, '{"name": "flow", "nodes": [{"id": "a", "task": "report"}]}', 'x', now());
insert into everwhen.runs (tenant_id, run_id, source, task, queue, priority, due_at, planned_at, input)
values ('$tenant', '$workflow_run', 'api', 'workflow:flow', 'everwhen:workflows', 5, '$now', '$now', '{}');
insert into everwhen.waiting (tenant_id, queue, priority, available_at, run_id, task)
values ('$tenant', 'everwhen:workflows', 5, '$now', '$workflow_run', 'workflow:flow');
insert into everwhen.workflow_runs (tenant_id, run_id, workflow, version, root_run_id, generation, nesting)
values ('$tenant', '$workflow_run', 'flow', 1, '$workflow_run', 1, 0);
insert into everwhen.service_tasks (tenant_id, id, owner, dedup_id, schedule_uid, cron, priority, digest, created_at,
                                    updated_at)
values ('$tenant', '$schedule', 'tester', 'd', '$schedule', '* * * * *', 5, 'd', now(), now());
insert into everwhen.operations (tenant_id, id, kind, state, request, requested_by, reason, created_at, changed_by,
                                 changed_at, moved_at, total, canary_passed, listed, listed_count, rate_at, seen_seq)
values ('$tenant', '$schedule', 'redrive', 'succeeded', '$request', 'x', 'x', now(), 'x', now(), now(), 0, true, '', 0,
        now(), 0);
update everwhen.tasks set retry = '$retry';
