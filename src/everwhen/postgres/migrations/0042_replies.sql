-- Answers that are kept under callers' keys for a while, in place of keys that only named a run and never expired.
-- everwhen: breaking

create table everwhen.replies (
  tenant_id   uuid not null references everwhen.tenants (id),
  principal   text not null, -- who asked
  operation   text not null, -- for what
  key         text not null check (length(key) between 1 and 255),
  fingerprint bytea not null, -- a digest of the request
  status      smallint not null,
  headers     jsonb not null,
  body        bytea not null,
  expires_at  timestamptz not null,
  primary key (tenant_id, principal, operation, key)
);
create index replies_expired on everwhen.replies (expires_at);

alter table everwhen.replies enable row level security, force row level security;
create policy own_rows on everwhen.replies to everwhen_tenant
  using (tenant_id = everwhen.current_tenant()) with check (tenant_id = everwhen.current_tenant());
create policy all_tenants on everwhen.replies to everwhen_system using (true) with check (true);
grant select, insert, update on everwhen.replies to everwhen_tenant;
grant select, update, delete on everwhen.replies to everwhen_system;

drop table everwhen.idempotency_keys;
