-- Which release of the tz database a decision was made with: on each planned run, for ever; on the watermark, for what
-- was planned ahead and for next_at; and on the revision that a new release made.
alter table everwhen.runs add column tz_version text;
alter table everwhen.watermarks add column tz_version text; -- null: planned before releases were recorded
alter table everwhen.schedule_revisions add column tz_version text;
alter table everwhen.schedule_revisions drop constraint schedule_revisions_action_check;
alter table everwhen.schedule_revisions add constraint schedule_revisions_action_check
  check (action in ('created', 'updated', 'paused', 'resumed', 'deleted', 'rezoned'));
