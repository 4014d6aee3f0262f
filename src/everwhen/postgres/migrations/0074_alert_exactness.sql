-- Channels, subscriptions, templates and members count their revisions, so that a change can name the one it means.
alter table everwhen.alert_channels add column revision integer not null default 1 check (revision > 0);
alter table everwhen.alert_subscriptions add column revision integer not null default 1 check (revision > 0);
alter table everwhen.alert_templates add column revision integer not null default 1 check (revision > 0);
alter table everwhen.members add column revision integer not null default 1 check (revision > 0);

-- Whether anybody listens for a word is one probe, however many tenants listen for other words.
create index subscription_kinds_word on everwhen.subscription_kinds (kind, tenant_id);

-- A run whose first attempt was claimed late is late, however soon it ended. The watch tells of it while it waits or
-- runs; whoever closes the attempt tells of what began and ended between two looks. Both write who was told in the order
-- of the key, so that neither waits for the other in turn. A run that nobody began may have expired meanwhile.
grant insert on everwhen.alert_watched to everwhen_tenant;

create function everwhen.signal_late_ones(tenant_ids uuid[], run_ids uuid[], begun_ats timestamptz[]) returns void
language sql as $$
  with late as (
    select c.tenant_id, c.run_id, r.due_at + r.objective as since
    from unnest(tenant_ids, run_ids, begun_ats) as c (tenant_id, run_id, begun_at)
    cross join lateral (
      select greatest(r.due_at, r.planned_at) as due_at,
             make_interval(secs => coalesce((
               select m.objective_seconds from everwhen.measured m
               where m.tenant_id = r.tenant_id and m.schedule_uid = r.schedule_uid), 30)) as objective
      from everwhen.runs r where r.tenant_id = c.tenant_id and r.run_id = c.run_id offset 0) r
    where c.begun_at > r.due_at + r.objective
      and exists (select from everwhen.subscription_kinds k where k.tenant_id = c.tenant_id and k.kind = 'run.late')
  ), told as (
    insert into everwhen.alert_watched (tenant_id, kind, run_id, since, told_at)
    select l.tenant_id, 'run.late', l.run_id, l.since, now() from late l
    order by l.tenant_id, l.run_id
    on conflict do nothing
    returning tenant_id, run_id, since
  )
  insert into everwhen.alert_signals (tenant_id, kind, at, run_id)
  select t.tenant_id, 'run.late', t.since, t.run_id from told t
$$;

create or replace function everwhen.signal_attempts() returns trigger language plpgsql as $$
begin
  if exists (select from everwhen.subscription_kinds k where k.kind = 'attempt.failed') then
    insert into everwhen.alert_signals (tenant_id, kind, at, run_id, attempt)
    select a.tenant_id, 'attempt.failed', a.finished_at, a.run_id, a.attempt
    from written a
    where a.outcome in ('failed', 'timed_out', 'lost') and exists (
      select from everwhen.subscription_kinds k where k.tenant_id = a.tenant_id and k.kind = 'attempt.failed');
  end if;
  if exists (select from everwhen.subscription_kinds k where k.kind = 'run.late') then
    perform everwhen.signal_late_ones(array_agg(a.tenant_id), array_agg(a.run_id), array_agg(a.claimed_at))
    from written a where a.attempt = 1;
  end if;
  return null;
end $$;

create or replace function everwhen.signal_ends() returns trigger language plpgsql as $$
begin
  if exists (select from everwhen.subscription_kinds) then
    insert into everwhen.alert_signals (tenant_id, kind, at, run_id)
    select e.tenant_id, 'run.' || e.state, e.finished_at, e.run_id
    from written e
    where exists (
      select from everwhen.subscription_kinds k where k.tenant_id = e.tenant_id and k.kind = 'run.' || e.state);
    perform everwhen.signal_late_ones(array_agg(e.tenant_id), array_agg(e.run_id), array_agg(e.finished_at))
    from written e where e.state = 'expired' and e.attempts = 0
    having count(*) > 0 and exists (select from everwhen.subscription_kinds k where k.kind = 'run.late');
  end if;
  return null;
end $$;
