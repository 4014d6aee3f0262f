-- What lists walk along: nothing of what a list passes over may grow without end.

-- Open findings among all that ever were; and those of every tenant.
create index findings_open_newest on everwhen.findings (tenant_id, finding_id) where closed_at is null;
create index findings_newest on everwhen.findings (finding_id);
create index findings_open_everywhere on everwhen.findings (finding_id) where closed_at is null;

-- Tasks without the workflows that stand among them: those after the last task would all be passed over.
create index tasks_listed on everwhen.tasks (tenant_id, name) where queue <> 'everwhen:workflows';

-- One user's tasks of the task service.
create index service_tasks_owner on everwhen.service_tasks (tenant_id, owner, id) where deleted_at is null;

-- Calendars without those that were deleted.
create index calendars_listed on everwhen.calendars (tenant_id, name) where deleted_at is null;

-- Dead runs by fingerprint, by plain columns: behind row-level security no expression that could tell what it sees is
-- looked up in an index, and `coalesce` is taken for one.
create index run_ends_fingerprint on everwhen.run_ends (tenant_id, fingerprint, run_id) where state = 'dead';
drop index everwhen.run_ends_dead;
