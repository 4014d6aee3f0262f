-- Years of outages leave a schedule with thousands of arrears that are finished. What is left of its past is found without
-- walking through them.
create index arrears_unfinished on everwhen.arrears (tenant_id, schedule_uid, arrears_id) where finished_at is null;
