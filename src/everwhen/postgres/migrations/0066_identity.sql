-- Who may do what: service tokens, members, sessions, and what was revoked.

-- Secrets that a tenant has given to its workers and programs; of each only the hash is kept.
create table everwhen.service_tokens (
  tenant_id        uuid not null references everwhen.tenants (id),
  token_id         uuid not null,
  name             text not null check (length(name) between 1 and 200),
  roles            text[] not null,
  queues           text[], -- null: every queue of the tenant
  tasks            text[], -- null: every task
  secret_hash      bytea not null check (length(secret_hash) = 32),
  previous_hash    bytea check (length(previous_hash) = 32), -- the secret before the last renewal,
  previous_until   timestamptz,                              -- which holds until then
  created_by       text not null,
  created_at       timestamptz not null,
  issued_at        timestamptz not null, -- made, or renewed
  expires_at       timestamptz not null,
  revoked_at       timestamptz,
  revoked_by       text,
  last_used_at     timestamptz, -- to the minute
  primary key (tenant_id, token_id)
) with (fillfactor = 70);
create unique index service_tokens_name on everwhen.service_tokens (tenant_id, name) where revoked_at is null;
-- Looked up before it is known whose it is, so without the tenant; not unique, and 256 random bits meet nobody's.
create index service_tokens_secret on everwhen.service_tokens (secret_hash);
create index service_tokens_previous on everwhen.service_tokens (previous_hash) where previous_hash is not null;

-- People whose tokens come from a configured issuer, by the issuer's name and its subject.
create table everwhen.members (
  tenant_id  uuid not null references everwhen.tenants (id),
  subject    text not null check (length(subject) between 1 and 240),
  roles      text[] not null,
  added_by   text not null,
  added_at   timestamptz not null,
  changed_by text not null,
  changed_at timestamptz not null,
  primary key (tenant_id, subject)
);
create index members_subject on everwhen.members (subject);

-- Tokens that hold no longer: one by its id, or all of a subject that were issued by an instant. The nil tenant stands for
-- everywhere. A row goes when no token that it is about can be alive.
create table everwhen.revocations (
  tenant_id    uuid not null,
  kind         text not null check (kind in ('token', 'subject')),
  value        text not null check (length(value) between 1 and 250),
  issued_until timestamptz not null,
  reason       text not null,
  revoked_by   text not null,
  revoked_at   timestamptz not null,
  expires_at   timestamptz not null,
  primary key (tenant_id, kind, value)
);
create index revocations_at on everwhen.revocations (revoked_at);
create index revocations_expiry on everwhen.revocations (expires_at);

-- The console's sessions. They belong to people and not to tenants: only the system's role gets at them.
create table everwhen.sessions (
  session_id  uuid primary key,
  secret_hash bytea not null unique check (length(secret_hash) = 32),
  subject     text not null,
  principal   jsonb not null, -- who the token stood for that the session was exchanged for
  created_at  timestamptz not null,
  seen_at     timestamptz not null, -- to the minute
  expires_at  timestamptz not null
) with (fillfactor = 70);
create index sessions_expiry on everwhen.sessions (expires_at);

do $$
declare t text;
begin
  foreach t in array array['service_tokens', 'members', 'revocations'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = (select everwhen.current_tenant()))
                    with check (tenant_id = (select everwhen.current_tenant()))', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
grant select, insert, update, delete on everwhen.service_tokens, everwhen.members, everwhen.revocations to everwhen_tenant;
grant select, update on everwhen.service_tokens to everwhen_system;
grant select on everwhen.members to everwhen_system;
grant select, insert, update, delete on everwhen.revocations, everwhen.sessions to everwhen_system;
