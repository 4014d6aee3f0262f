-- Streams of events. Each event knows the transaction that wrote it, and a cut says which transactions had committed at a
-- moment; what lies between two cuts is everything that was committed between them, whenever it was written
-- (streaming/__init__.py). Events from before this migration have no transaction, and so lie before the first cut.
alter table everwhen.events add column written_by bigint;
alter table everwhen.events alter column written_by set default pg_current_xact_id()::text::bigint;
create index events_written on everwhen.events (tenant_id, written_by) where written_by is not null;

-- One row for each cut: its own snapshot, and that of the cut before it, so that what lies between is told by one row.
-- It says nothing about any tenant.
create table everwhen.cuts (
  cut              bigint primary key,  -- microseconds since 1970 of the clock, and always more than the last one
  oldest           bigint not null,     -- transactions below it had all ended
  next             bigint not null,     -- those from it on had not begun
  in_flight        bigint[] not null,   -- between the two, those that had not ended
  before_oldest    bigint not null,     -- the same of the cut before
  before_next      bigint not null,
  before_in_flight bigint[] not null,
  server           text not null,       -- whose transactions are counted: a restored dump brings those of another one
  above            bigint not null,     -- events up to this one were written by another server's transactions
  check (oldest <= next and before_oldest <= before_next)
);

grant select on everwhen.cuts to everwhen_tenant;
grant select, insert, delete on everwhen.cuts to everwhen_system;
grant select on sequence everwhen.event_ids to everwhen_system;
