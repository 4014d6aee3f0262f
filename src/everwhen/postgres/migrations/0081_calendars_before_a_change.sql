-- What passed before a calendar changed is decided by the version that was in force then, although its schedules follow a
-- moment later. Null in what an older server has written.
alter table everwhen.calendar_changes add column version integer; -- that was in force before
alter table everwhen.calendar_changes add column changed_at timestamptz;
