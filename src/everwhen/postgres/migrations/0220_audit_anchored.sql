-- Where each chain was last noted outside of the database. The tables for checkpoints that are kept in the database are
-- dropped: whoever can hash a chain anew can take them away, so a checkpoint is worth something elsewhere only.

drop table everwhen.audit_unanchored;
drop table everwhen.audit_checkpoints;

drop index everwhen.audit_heads_unsigned; -- it kept the sealer's updates from being heap-only
alter table everwhen.audit_heads
  drop column signed,
  drop column signed_at,
  add column anchored      bigint not null default 0, -- the last place that was noted; 0: none was
  add column anchored_hash bytea check (octet_length(anchored_hash) = 32),
  add column anchored_at   timestamptz not null default '-infinity',
  add column held_until    timestamptz, -- a notary is at it until then
  add column fault         text; -- why it cannot be noted: it does not follow from what was
create index audit_heads_anchored_at on everwhen.audit_heads (anchored_at);
