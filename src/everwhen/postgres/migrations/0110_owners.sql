-- Who declares a thing: a directory of files, by the name that it was applied under. Null: nobody, it was made by hand.
-- What an owner has is listed by name, so that what his files no longer declare can be found without a walk through the
-- rest.
alter table everwhen.tasks add column owner text check (length(owner) between 1 and 200);
alter table everwhen.schedules add column owner text check (length(owner) between 1 and 200);
alter table everwhen.schedule_revisions add column owner text;
alter table everwhen.workflows add column owner text check (length(owner) between 1 and 200);
alter table everwhen.calendars add column owner text check (length(owner) between 1 and 200);

create index tasks_by_owner on everwhen.tasks (tenant_id, owner, name);
create index schedules_by_owner on everwhen.schedules (tenant_id, owner, name) where state <> 'deleted';
create index workflows_by_owner on everwhen.workflows (tenant_id, owner, name);
create index calendars_by_owner on everwhen.calendars (tenant_id, owner, name) where deleted_at is null;
