-- Leases of lanes that had a limit when they were claimed: their end makes room, and wakes whoever waits for it.
alter table everwhen.leases add column is_capped boolean not null default false;
