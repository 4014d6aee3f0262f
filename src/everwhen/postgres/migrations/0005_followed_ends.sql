-- A run whose end somebody follows: an overlap policy, a streak of failures, a workflow. The mark travels with the run
-- from the line to the lease and back, so that whoever ends it knows without a look at anything else.
alter table everwhen.waiting add column is_followed boolean not null default false;
alter table everwhen.leases add column is_followed boolean not null default false;
alter table everwhen.schedules add column is_followed boolean not null default false;

-- Which run this one was made from: the dead run of a redrive. No foreign key to runs: it would lock the run.
alter table everwhen.runs add column origin_run_id uuid;

-- What the last error of a dead run looks like: equal for errors that are alike.
alter table everwhen.run_ends add column fingerprint text;
