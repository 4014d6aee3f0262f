-- Every thing that can be changed counts its revisions, so that a change can name the one it means.

alter table everwhen.tasks add column revision integer not null default 1 check (revision > 0);
alter table everwhen.measured add column revision integer not null default 0 check (revision >= 0);
