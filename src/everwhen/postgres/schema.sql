-- Generated from migrations/ by `make schema`; do not edit.

CREATE SCHEMA everwhen;

CREATE FUNCTION everwhen.current_tenant() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (NULLIF(current_setting('everwhen.tenant'::text, true), ''::text))::uuid;

CREATE FUNCTION everwhen.draw_from(now timestamp with time zone, known timestamp with time zone, quota integer, seconds double precision, owed integer, wanted integer, OUT full_at timestamp with time zone, OUT granted integer) RETURNS record
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT (draw_from.now + make_interval(secs => (d.full_in + (((d.granted)::double precision * draw_from.seconds) / (draw_from.quota)::double precision)))),
     d.granted
    FROM ( SELECT a.full_in,
             (GREATEST((0)::double precision, LEAST((draw_from.wanted)::double precision, floor(((((draw_from.seconds - a.full_in) * (draw_from.quota)::double precision) / draw_from.seconds) + (0.000001)::double precision)))))::integer AS granted
            FROM ( SELECT GREATEST((0)::double precision, (LEAST((EXTRACT(epoch FROM (draw_from.known - draw_from.now)))::double precision, ((2)::double precision * draw_from.seconds)) + (((draw_from.owed)::double precision * draw_from.seconds) / (draw_from.quota)::double precision))) AS full_in) a) d;
END;

CREATE FUNCTION everwhen.ensure_audit_week(instant timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  monday timestamptz := date_trunc('week', instant at time zone 'UTC') at time zone 'UTC';
  parent text;
  child  text;
begin
  if instant not between clock_timestamp() - interval '11 years' and clock_timestamp() + interval '1 year' then
    raise exception 'no partition for %', instant using errcode = 'invalid_parameter_value';
  end if;
  if to_regclass(format('everwhen.audit_links_%s', to_char(monday at time zone 'UTC', 'YYYYMMDD'))) is not null then
    return false;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('everwhen.ensure_audit_week', 0));
  foreach parent in array array['audit_events', 'audit_links'] loop
    child := format('%s_%s', parent, to_char(monday at time zone 'UTC', 'YYYYMMDD'));
    continue when to_regclass('everwhen.' || child) is not null;
    execute format('create table everwhen.%I (like everwhen.%I including defaults including constraints)', child, parent);
    execute format('alter table everwhen.%I enable row level security, force row level security', child);
    execute format('create trigger not_truncated before truncate on everwhen.%I
                    for each statement execute function everwhen.refuse_change()', child);
    execute format('alter table everwhen.%I attach partition everwhen.%I for values from (%L) to (%L)',
                   parent, child, everwhen.first_run_id(monday), everwhen.first_run_id(monday + interval '168 hours'));
  end loop;
  return true;
end $$;

CREATE FUNCTION everwhen.ensure_week(instant timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  monday timestamptz := date_trunc('week', instant at time zone 'UTC') at time zone 'UTC';
  parent text;
  child  text;
begin
  if instant not between clock_timestamp() - interval '11 years' and clock_timestamp() + interval '1 year' then
    raise exception 'no partition for %: runs live between 11 years ago and a year ahead', instant
      using errcode = 'invalid_parameter_value';
  end if;
  if to_regclass(format('everwhen.events_%s', to_char(monday at time zone 'UTC', 'YYYYMMDD'))) is not null then
    return false;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('everwhen.ensure_week', 0));
  foreach parent in array array['runs', 'run_ends', 'attempts', 'events'] loop
    child := format('%s_%s', parent, to_char(monday at time zone 'UTC', 'YYYYMMDD'));
    continue when to_regclass('everwhen.' || child) is not null;
    execute format('create table everwhen.%I (like everwhen.%I including defaults including constraints)', child, parent);
    execute format('alter table everwhen.%I enable row level security, force row level security', child);
    execute format('alter table everwhen.%I attach partition everwhen.%I for values from (%L) to (%L)',
                   parent, child, everwhen.first_run_id(monday), everwhen.first_run_id(monday + interval '168 hours'));
  end loop;
  return true;
end $$;

CREATE FUNCTION everwhen.first_run_id(instant timestamp with time zone) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((lpad(to_hex((floor((EXTRACT(epoch FROM instant) * (1000)::numeric)))::bigint), 12, '0'::text) || repeat('0'::text, 20)))::uuid;

CREATE FUNCTION everwhen.fits(requires jsonb, labels jsonb, free jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT ((COALESCE((requires -> 'labels'::text), '{}'::jsonb) <@ labels) AND (NOT (EXISTS ( SELECT
            FROM jsonb_each(COALESCE((fits.requires -> 'resources'::text), '{}'::jsonb)) r(name, amount)
           WHERE (COALESCE(((fits.free ->> r.name))::double precision, (0)::double precision) < ((r.amount #>> '{}'::text[]))::double precision)))));
END;

CREATE SEQUENCE everwhen.lease_numbers
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE FUNCTION everwhen.new_lease_token() RETURNS bigint
    LANGUAGE sql
    RETURN ((nextval('everwhen.lease_numbers'::regclass) << 20) | (floor((random() * (1048576)::double precision)))::bigint);

CREATE FUNCTION everwhen.refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  raise exception 'the audit is append-only: % of % is refused', lower(tg_op), tg_table_name
    using errcode = 'insufficient_privilege';
end $$;

CREATE FUNCTION everwhen.signal_attempts() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION everwhen.signal_ends() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION everwhen.signal_findings() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  insert into everwhen.alert_signals (tenant_id, kind, at, subject, detail)
  select f.tenant_id, 'finding.' || f.kind, f.at, f.subject, f.detail || jsonb_build_object('finding_id', f.finding_id)
  from written f
  where f.change = 'opened' and exists (
    select from everwhen.subscription_kinds k where k.tenant_id = f.tenant_id and k.kind = 'finding.' || f.kind);
  return null;
end $$;

CREATE FUNCTION everwhen.signal_late_ones(tenant_ids uuid[], run_ids uuid[], begun_ats timestamp with time zone[]) RETURNS void
    LANGUAGE sql
    AS $$
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

CREATE FUNCTION everwhen.signal_pauses() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  insert into everwhen.alert_signals (tenant_id, kind, at, subject, detail)
  select r.tenant_id, 'schedule.paused', r.changed_at, r.uid::text,
         jsonb_build_object('revision', r.revision, 'reason', r.reason)
  from written r
  where r.action = 'paused' and r.changed_by = 'everwhen' and exists (
    select from everwhen.subscription_kinds k where k.tenant_id = r.tenant_id and k.kind = 'schedule.paused');
  return null;
end $$;

CREATE FUNCTION everwhen.signal_spans() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  insert into everwhen.alert_signals (tenant_id, kind, at, subject, detail)
  select p.tenant_id, 'span.' || p.verdict, p.recorded_at, p.schedule_uid::text,
         jsonb_build_object('first_at', p.first_at, 'last_at', p.last_at, 'instants', p.instants, 'reason', p.reason)
  from written p
  where exists (
    select from everwhen.subscription_kinds k where k.tenant_id = p.tenant_id and k.kind = 'span.' || p.verdict);
  return null;
end $$;

CREATE FUNCTION everwhen.use_runs(tenant_ids uuid[], days date[], wanted integer[], usual bigint) RETURNS TABLE(n integer, granted integer, most bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
  own  constant smallint := 1 + pg_backend_pid() % 63;
  near integer[];
  a    record;
begin
  near := array(
    select i.n::integer
    from unnest(tenant_ids, days, wanted) with ordinality as i (tenant_id, day, wanted, n)
    left join lateral (
      select l.runs_per_day from everwhen.tenant_limits l where l.tenant_id = i.tenant_id offset 0) l on true
    left join lateral (
      select sum(c.runs) as used from everwhen.run_counts c
      where c.tenant_id = i.tenant_id and c.day = i.day offset 0) c on true
    where coalesce(c.used, 0) + i.wanted
            > coalesce(l.runs_per_day, usual) - greatest(coalesce(l.runs_per_day, usual) / 10, 10000));
  if near = '{}' then
    insert into everwhen.run_counts as c (tenant_id, day, shard, runs)
    select i.tenant_id, i.day, own, i.wanted
    from unnest(tenant_ids, days, wanted) as i (tenant_id, day, wanted)
    order by i.tenant_id, i.day
    on conflict (tenant_id, day, shard) do update set runs = c.runs + excluded.runs;
    return query
      select i.n::integer, i.wanted, usual
      from unnest(tenant_ids, days, wanted) with ordinality as i (tenant_id, day, wanted, n);
    return;
  end if;
  for a in
    select i.n::integer as n, i.tenant_id, i.day, i.wanted
    from unnest(tenant_ids, days, wanted) with ordinality as i (tenant_id, day, wanted, n)
    order by i.tenant_id, i.day
  loop
    n := a.n;
    if a.n <> all(near) then
      insert into everwhen.run_counts as c (tenant_id, day, shard, runs) values (a.tenant_id, a.day, own, a.wanted)
      on conflict (tenant_id, day, shard) do update set runs = c.runs + excluded.runs;
      granted := a.wanted;
      most := usual;
      return next;
      continue;
    end if;
    insert into everwhen.run_counts (tenant_id, day, shard, runs) values (a.tenant_id, a.day, 0, 0) on conflict do nothing;
    perform from everwhen.run_counts c where c.tenant_id = a.tenant_id and c.day = a.day order by c.shard for update;
    most := coalesce(
      (select l.runs_per_day from everwhen.tenant_limits l where l.tenant_id = a.tenant_id), usual);
    granted := greatest(0, least(a.wanted, most - (
      select sum(c.runs) from everwhen.run_counts c where c.tenant_id = a.tenant_id and c.day = a.day)));
    update everwhen.run_counts c
    set runs = c.runs + granted, skipped = c.skipped + a.wanted - granted
    where c.tenant_id = a.tenant_id and c.day = a.day and c.shard = 0;
    return next;
  end loop;
end $$;

CREATE TABLE everwhen.admitted (
    tenant_id uuid NOT NULL,
    schedule_uid uuid NOT NULL,
    run_id uuid NOT NULL,
    admitted_at timestamp with time zone NOT NULL,
    stop_asked_at timestamp with time zone
);

ALTER TABLE ONLY everwhen.admitted FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.alert_channels (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    configuration jsonb NOT NULL,
    state text NOT NULL,
    state_reason text,
    window_seconds double precision NOT NULL,
    messages_an_hour integer,
    quiet jsonb,
    failures integer DEFAULT 0 NOT NULL,
    refusals integer DEFAULT 0 NOT NULL,
    last_success_at timestamp with time zone,
    last_failure_at timestamp with time zone,
    last_error text,
    created_by text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    revision integer DEFAULT 1 NOT NULL,
    CONSTRAINT alert_channels_kind_check CHECK (((length(kind) >= 1) AND (length(kind) <= 40))),
    CONSTRAINT alert_channels_messages_an_hour_check CHECK (((messages_an_hour >= 1) AND (messages_an_hour <= 36000))),
    CONSTRAINT alert_channels_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT alert_channels_revision_check CHECK ((revision > 0)),
    CONSTRAINT alert_channels_state_check CHECK ((state = ANY (ARRAY['enabled'::text, 'disabled'::text]))),
    CONSTRAINT alert_channels_window_seconds_check CHECK (((window_seconds >= (0)::double precision) AND (window_seconds <= (86400)::double precision)))
)
WITH (fillfactor='80');

ALTER TABLE ONLY everwhen.alert_channels FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.alert_deliveries (
    tenant_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    channel text NOT NULL,
    recipient text NOT NULL,
    state text NOT NULL,
    is_test boolean DEFAULT false NOT NULL,
    resend_of uuid,
    subscriptions jsonb NOT NULL,
    total integer NOT NULL,
    counts jsonb NOT NULL,
    shown jsonb NOT NULL,
    window_from timestamp with time zone NOT NULL,
    window_to timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    look_at timestamp with time zone,
    lease_token bigint,
    tries integer DEFAULT 0 NOT NULL,
    first_tried_at timestamp with time zone,
    finished_at timestamp with time zone,
    response text,
    CONSTRAINT alert_deliveries_check CHECK ((((look_at IS NULL) = (state = ANY (ARRAY['delivered'::text, 'dead'::text]))) AND ((finished_at IS NULL) = (look_at IS NOT NULL)))),
    CONSTRAINT alert_deliveries_state_check CHECK ((state = ANY (ARRAY['gathering'::text, 'sending'::text, 'retrying'::text, 'delivered'::text, 'dead'::text]))),
    CONSTRAINT alert_deliveries_total_check CHECK ((total > 0))
)
WITH (fillfactor='50');

ALTER TABLE ONLY everwhen.alert_deliveries FORCE ROW LEVEL SECURITY;

CREATE SEQUENCE everwhen.alert_lease_numbers
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE everwhen.alert_listeners (
    tenant_id uuid NOT NULL,
    looked_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY everwhen.alert_listeners FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.alert_outlets (
    tenant_id uuid NOT NULL,
    channel text NOT NULL,
    recipient text NOT NULL,
    verified_at timestamp with time zone,
    tested_by uuid,
    tested_at timestamp with time zone,
    wrong_codes integer DEFAULT 0 NOT NULL,
    unsubscribed_at timestamp with time zone,
    opens_at timestamp with time zone,
    urgent_opens_at timestamp with time zone,
    allowance timestamp with time zone,
    gathering uuid,
    urgent_gathering uuid,
    CONSTRAINT alert_outlets_recipient_check CHECK ((length(recipient) <= 320))
)
WITH (fillfactor='70');

ALTER TABLE ONLY everwhen.alert_outlets FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.alert_routes (
    tenant_id uuid NOT NULL,
    subscription text NOT NULL,
    channel text NOT NULL
);

ALTER TABLE ONLY everwhen.alert_routes FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.alert_secrets (
    tenant_id uuid NOT NULL,
    channel text NOT NULL,
    name text NOT NULL,
    sealed bytea NOT NULL,
    CONSTRAINT alert_secrets_name_check CHECK (((length(name) >= 1) AND (length(name) <= 100)))
);

ALTER TABLE ONLY everwhen.alert_secrets FORCE ROW LEVEL SECURITY;

CREATE SEQUENCE everwhen.alert_signal_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE everwhen.alert_signals (
    tenant_id uuid NOT NULL,
    signal_id bigint DEFAULT nextval('everwhen.alert_signal_ids'::regclass) NOT NULL,
    kind text NOT NULL,
    at timestamp with time zone NOT NULL,
    run_id uuid,
    attempt smallint,
    subject text,
    detail jsonb
);

ALTER TABLE ONLY everwhen.alert_signals FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.alert_subscriptions (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    scope text NOT NULL,
    target text,
    kinds text[] NOT NULL,
    filter text NOT NULL,
    after_failures integer NOT NULL,
    pierces boolean NOT NULL,
    is_enabled boolean NOT NULL,
    created_by text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    revision integer DEFAULT 1 NOT NULL,
    CONSTRAINT alert_subscriptions_after_failures_check CHECK (((after_failures >= 1) AND (after_failures <= 50))),
    CONSTRAINT alert_subscriptions_check CHECK (((target IS NULL) = (scope = 'tenant'::text))),
    CONSTRAINT alert_subscriptions_kinds_check CHECK (((cardinality(kinds) >= 1) AND (cardinality(kinds) <= 40))),
    CONSTRAINT alert_subscriptions_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT alert_subscriptions_revision_check CHECK ((revision > 0)),
    CONSTRAINT alert_subscriptions_scope_check CHECK ((scope = ANY (ARRAY['tenant'::text, 'schedule'::text, 'task'::text, 'workflow'::text, 'tag'::text])))
);

ALTER TABLE ONLY everwhen.alert_subscriptions FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.alert_templates (
    tenant_id uuid NOT NULL,
    kind text NOT NULL,
    part text NOT NULL,
    source text NOT NULL,
    updated_by text NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    revision integer DEFAULT 1 NOT NULL,
    CONSTRAINT alert_templates_kind_check CHECK (((length(kind) >= 1) AND (length(kind) <= 60))),
    CONSTRAINT alert_templates_part_check CHECK ((part = ANY (ARRAY['subject'::text, 'text'::text, 'html'::text, 'slack'::text]))),
    CONSTRAINT alert_templates_revision_check CHECK ((revision > 0)),
    CONSTRAINT alert_templates_source_check CHECK (((octet_length(source) >= 1) AND (octet_length(source) <= 16384)))
);

ALTER TABLE ONLY everwhen.alert_templates FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.alert_told (
    tenant_id uuid NOT NULL,
    channel text NOT NULL,
    recipient text NOT NULL,
    occasion_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    kind text NOT NULL
);

ALTER TABLE ONLY everwhen.alert_told FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.alert_tries (
    tenant_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    try integer NOT NULL,
    began_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    outcome text,
    response text,
    seconds double precision,
    notifier text,
    CONSTRAINT alert_tries_check CHECK (((ended_at IS NULL) = (outcome IS NULL))),
    CONSTRAINT alert_tries_notifier_check CHECK ((length(notifier) <= 300)),
    CONSTRAINT alert_tries_outcome_check CHECK ((outcome = ANY (ARRAY['delivered'::text, 'failed'::text, 'refused'::text, 'abandoned'::text]))),
    CONSTRAINT alert_tries_response_check CHECK ((length(response) <= 500))
);

ALTER TABLE ONLY everwhen.alert_tries FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.alert_watched (
    tenant_id uuid NOT NULL,
    kind text NOT NULL,
    run_id uuid NOT NULL,
    attempt smallint DEFAULT 0 NOT NULL,
    progress text,
    since timestamp with time zone NOT NULL,
    told_at timestamp with time zone,
    CONSTRAINT alert_watched_kind_check CHECK ((kind = ANY (ARRAY['run.late'::text, 'run.overdue'::text, 'run.zombie'::text])))
)
WITH (fillfactor='70');

ALTER TABLE ONLY everwhen.alert_watched FORCE ROW LEVEL SECURITY;

CREATE SEQUENCE everwhen.arrears_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE everwhen.arrears (
    tenant_id uuid NOT NULL,
    schedule_uid uuid NOT NULL,
    arrears_id bigint DEFAULT nextval('everwhen.arrears_ids'::regclass) NOT NULL,
    cause text NOT NULL,
    revision integer NOT NULL,
    rule jsonb,
    skip_reason text NOT NULL,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    as_of timestamp with time zone NOT NULL,
    late_before timestamp with time zone NOT NULL,
    rest_after timestamp with time zone NOT NULL,
    rest_until timestamp with time zone NOT NULL,
    begun boolean DEFAULT false NOT NULL,
    first_run timestamp with time zone,
    last_run timestamp with time zone,
    open_span jsonb,
    paced_until timestamp with time zone,
    runs bigint DEFAULT 0 NOT NULL,
    coalesced bigint DEFAULT 0 NOT NULL,
    skipped bigint DEFAULT 0 NOT NULL,
    missed bigint DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    last_error text,
    look_at timestamp with time zone,
    finished_at timestamp with time zone,
    answered timestamp with time zone[],
    CONSTRAINT arrears_cause_check CHECK ((cause = ANY (ARRAY['outage'::text, 'resume'::text, 'creation'::text, 'edit'::text]))),
    CONSTRAINT arrears_check CHECK ((until > since))
);

ALTER TABLE ONLY everwhen.arrears FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.attempt_logs (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    attempt integer NOT NULL,
    object_id uuid NOT NULL,
    size_bytes bigint DEFAULT 0 NOT NULL,
    pieces integer DEFAULT 0 NOT NULL,
    slots integer DEFAULT 0 NOT NULL,
    is_capped boolean DEFAULT false NOT NULL,
    opened_at timestamp with time zone NOT NULL,
    CONSTRAINT attempt_logs_attempt_check CHECK ((attempt > 0)),
    CONSTRAINT attempt_logs_check CHECK ((slots >= pieces)),
    CONSTRAINT attempt_logs_pieces_check CHECK ((pieces >= 0)),
    CONSTRAINT attempt_logs_size_bytes_check CHECK ((size_bytes >= 0))
);

ALTER TABLE ONLY everwhen.attempt_logs FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.attempts (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    attempt smallint NOT NULL,
    lease_token bigint NOT NULL,
    worker text NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    reason text,
    error jsonb,
    result jsonb,
    fingerprint text,
    CONSTRAINT attempts_outcome_check CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'failed'::text, 'timed_out'::text, 'lost'::text, 'released'::text, 'cancelled'::text])))
)
PARTITION BY RANGE (run_id);

ALTER TABLE ONLY everwhen.attempts FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.audit_epochs (
    epoch uuid NOT NULL,
    server text NOT NULL,
    timeline text NOT NULL,
    began_at timestamp with time zone NOT NULL
);

CREATE TABLE everwhen.audit_events (
    tenant_id uuid NOT NULL,
    event_id uuid NOT NULL,
    at timestamp with time zone NOT NULL,
    actor text NOT NULL,
    operation text NOT NULL,
    resource text NOT NULL,
    outcome text NOT NULL,
    request_id text NOT NULL,
    record text NOT NULL,
    CONSTRAINT audit_events_outcome_check CHECK ((outcome = ANY (ARRAY['done'::text, 'refused'::text])))
)
PARTITION BY RANGE (event_id);

ALTER TABLE ONLY everwhen.audit_events FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.audit_heads (
    tenant_id uuid NOT NULL,
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    epoch uuid,
    anchored bigint DEFAULT 0 NOT NULL,
    anchored_hash bytea,
    anchored_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    held_until timestamp with time zone,
    fault text,
    CONSTRAINT audit_heads_anchored_hash_check CHECK ((octet_length(anchored_hash) = 32)),
    CONSTRAINT audit_heads_hash_check CHECK ((octet_length(hash) = 32))
);

ALTER TABLE ONLY everwhen.audit_heads FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.audit_links (
    tenant_id uuid NOT NULL,
    event_id uuid NOT NULL,
    seq bigint NOT NULL,
    epoch uuid NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT audit_links_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT audit_links_seq_check CHECK ((seq > 0))
)
PARTITION BY RANGE (event_id);

ALTER TABLE ONLY everwhen.audit_links FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.audit_unsealed (
    tenant_id uuid NOT NULL,
    event_id uuid NOT NULL,
    at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY everwhen.audit_unsealed FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.brokers (
    broker text NOT NULL,
    is_away boolean NOT NULL,
    since timestamp with time zone NOT NULL,
    detail text NOT NULL,
    seen_at timestamp with time zone NOT NULL
);

CREATE TABLE everwhen.calendar_changes (
    tenant_id uuid NOT NULL,
    calendar text NOT NULL,
    after_uid uuid NOT NULL,
    version integer,
    changed_at timestamp with time zone
);

ALTER TABLE ONLY everwhen.calendar_changes FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.calendar_users (
    tenant_id uuid NOT NULL,
    calendar text NOT NULL,
    schedule_uid uuid NOT NULL
);

ALTER TABLE ONLY everwhen.calendar_users FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.calendar_versions (
    tenant_id uuid NOT NULL,
    calendar text NOT NULL,
    version integer NOT NULL,
    effective_from date,
    definition jsonb NOT NULL,
    is_in_force boolean NOT NULL,
    changed_by text NOT NULL,
    reason text,
    changed_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY everwhen.calendar_versions FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.calendars (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    deleted_at timestamp with time zone,
    owner text,
    CONSTRAINT calendars_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT calendars_owner_check CHECK (((length(owner) >= 1) AND (length(owner) <= 200))),
    CONSTRAINT calendars_version_check CHECK ((version > 0))
);

ALTER TABLE ONLY everwhen.calendars FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.cuts (
    cut bigint NOT NULL,
    oldest bigint NOT NULL,
    next bigint NOT NULL,
    in_flight bigint[] NOT NULL,
    before_oldest bigint NOT NULL,
    before_next bigint NOT NULL,
    before_in_flight bigint[] NOT NULL,
    server text NOT NULL,
    above bigint NOT NULL,
    CONSTRAINT cuts_check CHECK (((oldest <= next) AND (before_oldest <= before_next)))
);

CREATE TABLE everwhen.dead_letters (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    state text NOT NULL,
    redrives integer DEFAULT 0 NOT NULL,
    redriven_as uuid,
    changed_by text NOT NULL,
    reason text,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT dead_letters_redrives_check CHECK ((redrives >= 0)),
    CONSTRAINT dead_letters_state_check CHECK ((state = ANY (ARRAY['open'::text, 'redriven'::text, 'dismissed'::text])))
);

ALTER TABLE ONLY everwhen.dead_letters FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.endpoint_secrets (
    tenant_id uuid NOT NULL,
    queue text NOT NULL,
    name text NOT NULL,
    sealed bytea NOT NULL,
    CONSTRAINT endpoint_secrets_name_check CHECK (((length(name) >= 1) AND (length(name) <= 100))),
    CONSTRAINT endpoint_secrets_sealed_check CHECK (((length(sealed) >= 1) AND (length(sealed) <= 16384)))
);

ALTER TABLE ONLY everwhen.endpoint_secrets FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.endpoint_states (
    tenant_id uuid NOT NULL,
    queue text NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    rests_until timestamp with time zone,
    failing_since timestamp with time zone,
    last_failure_at timestamp with time zone,
    last_error text,
    test_wanted_at timestamp with time zone,
    tested_at timestamp with time zone,
    test_answer text,
    CONSTRAINT endpoint_states_failures_check CHECK ((failures >= 0))
)
WITH (fillfactor='70');

ALTER TABLE ONLY everwhen.endpoint_states FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.endpoints (
    tenant_id uuid NOT NULL,
    queue text NOT NULL,
    url text NOT NULL,
    headers jsonb DEFAULT '{}'::jsonb NOT NULL,
    answer_seconds double precision NOT NULL,
    accept_seconds double precision NOT NULL,
    revision integer DEFAULT 1 NOT NULL,
    changed_by text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT endpoints_accept_seconds_check CHECK (((accept_seconds >= (10)::double precision) AND (accept_seconds <= (604800)::double precision))),
    CONSTRAINT endpoints_answer_seconds_check CHECK (((answer_seconds >= (1)::double precision) AND (answer_seconds <= (300)::double precision))),
    CONSTRAINT endpoints_queue_check CHECK (((length(queue) >= 1) AND (length(queue) <= 200))),
    CONSTRAINT endpoints_revision_check CHECK ((revision > 0)),
    CONSTRAINT endpoints_url_check CHECK (((length(url) >= 1) AND (length(url) <= 2048)))
);

ALTER TABLE ONLY everwhen.endpoints FORCE ROW LEVEL SECURITY;

CREATE SEQUENCE everwhen.event_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE everwhen.events (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    event_id bigint DEFAULT nextval('everwhen.event_ids'::regclass) NOT NULL,
    at timestamp with time zone NOT NULL,
    kind text NOT NULL,
    attempt smallint,
    reason text,
    detail jsonb,
    written_by bigint DEFAULT ((pg_current_xact_id())::text)::bigint
)
PARTITION BY RANGE (run_id);

ALTER TABLE ONLY everwhen.events FORCE ROW LEVEL SECURITY;

CREATE SEQUENCE everwhen.finding_event_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE everwhen.finding_events (
    tenant_id uuid NOT NULL,
    event_id bigint DEFAULT nextval('everwhen.finding_event_ids'::regclass) NOT NULL,
    finding_id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    change text NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    detail jsonb NOT NULL,
    CONSTRAINT finding_events_change_check CHECK ((change = ANY (ARRAY['opened'::text, 'closed'::text])))
);

ALTER TABLE ONLY everwhen.finding_events FORCE ROW LEVEL SECURITY;

CREATE SEQUENCE everwhen.finding_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE everwhen.findings (
    tenant_id uuid NOT NULL,
    finding_id bigint DEFAULT nextval('everwhen.finding_ids'::regclass) NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    since timestamp with time zone NOT NULL,
    opened_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    closed_at timestamp with time zone,
    detail jsonb NOT NULL,
    CONSTRAINT findings_subject_check CHECK (((length(subject) >= 1) AND (length(subject) <= 200)))
)
WITH (fillfactor='70');

ALTER TABLE ONLY everwhen.findings FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.gates (
    tenant_id uuid NOT NULL,
    schedule_uid uuid NOT NULL,
    policy text NOT NULL,
    max_running integer,
    max_buffered integer,
    on_failure text NOT NULL,
    is_paused boolean DEFAULT false NOT NULL,
    held_up_by uuid,
    decided_at timestamp with time zone NOT NULL,
    CONSTRAINT gates_max_buffered_check CHECK ((max_buffered > 0)),
    CONSTRAINT gates_max_running_check CHECK ((max_running > 0)),
    CONSTRAINT gates_on_failure_check CHECK ((on_failure = ANY (ARRAY['continue'::text, 'hold'::text]))),
    CONSTRAINT gates_policy_check CHECK ((policy = ANY (ARRAY['allow'::text, 'skip'::text, 'buffer_one'::text, 'buffer_latest'::text, 'buffer_all'::text, 'cancel_other'::text, 'terminate_other'::text, 'strict_sequential'::text])))
);

ALTER TABLE ONLY everwhen.gates FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.held (
    tenant_id uuid NOT NULL,
    schedule_uid uuid NOT NULL,
    line_at timestamp with time zone NOT NULL,
    run_id uuid NOT NULL,
    due_at timestamp with time zone NOT NULL,
    look_at timestamp with time zone,
    queue text NOT NULL,
    priority smallint NOT NULL,
    task text NOT NULL,
    expires_at timestamp with time zone,
    is_planned boolean NOT NULL,
    is_patient boolean DEFAULT false NOT NULL,
    origin_run_id uuid,
    reason text,
    blocked_by uuid[],
    waits_since timestamp with time zone,
    CONSTRAINT held_priority_check CHECK (((priority >= 0) AND (priority <= 9)))
);

ALTER TABLE ONLY everwhen.held FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.key_rates (
    tenant_id uuid NOT NULL,
    task text NOT NULL,
    limit_key text NOT NULL,
    full_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

ALTER TABLE ONLY everwhen.key_rates FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.lanes (
    tenant_id uuid NOT NULL,
    queue text NOT NULL,
    weight integer DEFAULT 1 NOT NULL,
    max_in_flight integer,
    virtual_time double precision DEFAULT 0 NOT NULL,
    ageing_seconds double precision DEFAULT 3600,
    is_limited boolean DEFAULT false NOT NULL,
    has_tenant_limit boolean DEFAULT false NOT NULL,
    CONSTRAINT lanes_ageing_seconds_check CHECK ((ageing_seconds > (0)::double precision)),
    CONSTRAINT lanes_max_in_flight_check CHECK ((max_in_flight >= 0)),
    CONSTRAINT lanes_queue_check CHECK (((length(queue) >= 1) AND (length(queue) <= 200))),
    CONSTRAINT lanes_weight_check CHECK (((weight >= 1) AND (weight <= 1000)))
);

ALTER TABLE ONLY everwhen.lanes FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.leases (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    queue text NOT NULL,
    task text NOT NULL,
    worker text NOT NULL,
    attempt smallint NOT NULL,
    failures smallint NOT NULL,
    priority smallint NOT NULL,
    expires_at timestamp with time zone,
    lease_token bigint NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    deadline_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    details jsonb,
    is_followed boolean DEFAULT false NOT NULL,
    heartbeat_seconds double precision,
    started_at timestamp with time zone,
    policy jsonb,
    is_capped boolean DEFAULT false NOT NULL,
    limit_key text
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000');

ALTER TABLE ONLY everwhen.leases FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.line_states (
    tenant_id uuid NOT NULL,
    queue text NOT NULL,
    task text NOT NULL,
    reason text NOT NULL,
    opened_at timestamp with time zone NOT NULL,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone,
    facts jsonb NOT NULL
);

ALTER TABLE ONLY everwhen.line_states FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.log_bytes (
    tenant_id uuid NOT NULL,
    shard smallint NOT NULL,
    size_bytes bigint NOT NULL,
    CONSTRAINT log_bytes_shard_check CHECK (((shard >= 0) AND (shard <= 15)))
)
WITH (fillfactor='50');

ALTER TABLE ONLY everwhen.log_bytes FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.log_pieces (
    tenant_id uuid NOT NULL,
    object_id uuid NOT NULL,
    starts_at bigint NOT NULL,
    size_bytes integer NOT NULL,
    slot integer NOT NULL,
    CONSTRAINT log_pieces_size_bytes_check CHECK ((size_bytes > 0)),
    CONSTRAINT log_pieces_slot_check CHECK ((slot >= 0)),
    CONSTRAINT log_pieces_starts_at_check CHECK ((starts_at >= 0))
);

ALTER TABLE ONLY everwhen.log_pieces FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.measured (
    tenant_id uuid NOT NULL,
    schedule_uid uuid NOT NULL,
    measured_until timestamp with time zone NOT NULL,
    objective_seconds double precision,
    revision integer DEFAULT 0 NOT NULL,
    CONSTRAINT measured_objective_seconds_check CHECK (((objective_seconds > (0)::double precision) AND (objective_seconds <= (86400)::double precision))),
    CONSTRAINT measured_revision_check CHECK ((revision >= 0))
);

ALTER TABLE ONLY everwhen.measured FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.members (
    tenant_id uuid NOT NULL,
    subject text NOT NULL,
    roles text[] NOT NULL,
    added_by text NOT NULL,
    added_at timestamp with time zone NOT NULL,
    changed_by text NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    revision integer DEFAULT 1 NOT NULL,
    CONSTRAINT members_revision_check CHECK ((revision > 0)),
    CONSTRAINT members_subject_check CHECK (((length(subject) >= 1) AND (length(subject) <= 240)))
);

ALTER TABLE ONLY everwhen.members FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.observations (
    observer_id uuid NOT NULL,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE everwhen.operation_items (
    tenant_id uuid NOT NULL,
    operation_id uuid NOT NULL,
    seq bigint NOT NULL,
    run_id uuid,
    nominal_at timestamp with time zone,
    utc_offset_seconds integer,
    state text DEFAULT 'left'::text NOT NULL,
    reason text,
    made_run_id uuid,
    name text,
    uid uuid,
    detail text,
    CONSTRAINT operation_items_check CHECK ((num_nonnulls(run_id, nominal_at, name) = 1)),
    CONSTRAINT operation_items_state_check CHECK ((state = ANY (ARRAY['left'::text, 'done'::text, 'skipped'::text, 'succeeded'::text, 'dead'::text, 'ended'::text])))
);

ALTER TABLE ONLY everwhen.operation_items FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.operations (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    kind text NOT NULL,
    state text NOT NULL,
    state_reason text,
    request jsonb NOT NULL,
    requested_by text NOT NULL,
    reason text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    changed_by text NOT NULL,
    changed_reason text,
    changed_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    moved_at timestamp with time zone NOT NULL,
    total bigint NOT NULL,
    done bigint DEFAULT 0 NOT NULL,
    skipped bigint DEFAULT 0 NOT NULL,
    succeeded bigint DEFAULT 0 NOT NULL,
    dead bigint DEFAULT 0 NOT NULL,
    ended bigint DEFAULT 0 NOT NULL,
    canary_passed boolean NOT NULL,
    listed_until timestamp with time zone,
    listed bytea NOT NULL,
    listed_count bigint NOT NULL,
    rate_at timestamp with time zone NOT NULL,
    seen_seq bigint NOT NULL,
    next_at timestamp with time zone,
    CONSTRAINT operations_check CHECK ((((done + skipped) <= total) AND (((succeeded + dead) + ended) <= done))),
    CONSTRAINT operations_kind_check CHECK ((kind = ANY (ARRAY['redrive'::text, 'backfill'::text, 'cancel_runs'::text, 'pause_schedules'::text, 'resume_schedules'::text, 'tag_schedules'::text, 'untag_schedules'::text, 'delete_schedules'::text, 'tag_tasks'::text, 'untag_tasks'::text, 'tag_workflows'::text, 'untag_workflows'::text]))),
    CONSTRAINT operations_state_check CHECK ((state = ANY (ARRAY['planned'::text, 'running'::text, 'paused'::text, 'aborting'::text, 'succeeded'::text, 'failed'::text, 'aborted'::text]))),
    CONSTRAINT operations_total_check CHECK ((total >= 0))
);

ALTER TABLE ONLY everwhen.operations FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.outbox (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    queue text NOT NULL,
    broker text NOT NULL,
    attempt integer NOT NULL,
    told_at timestamp with time zone NOT NULL,
    published_at timestamp with time zone,
    look_at timestamp with time zone NOT NULL,
    tellings integer DEFAULT 1 NOT NULL
)
WITH (fillfactor='70');

ALTER TABLE ONLY everwhen.outbox FORCE ROW LEVEL SECURITY;

CREATE SEQUENCE everwhen.pause_changes_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE everwhen.pause_changes (
    tenant_id uuid NOT NULL,
    change_id bigint DEFAULT nextval('everwhen.pause_changes_ids'::regclass) NOT NULL,
    queue text NOT NULL,
    action text NOT NULL,
    changed_by text NOT NULL,
    reason text,
    paused_until timestamp with time zone,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT pause_changes_action_check CHECK ((action = ANY (ARRAY['paused'::text, 'resumed'::text])))
);

ALTER TABLE ONLY everwhen.pause_changes FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.pauses (
    tenant_id uuid NOT NULL,
    queue text NOT NULL,
    reason text NOT NULL,
    paused_by text NOT NULL,
    paused_at timestamp with time zone NOT NULL,
    paused_until timestamp with time zone,
    CONSTRAINT pauses_queue_check CHECK ((length(queue) <= 200))
);

ALTER TABLE ONLY everwhen.pauses FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.payload_objects (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    state text NOT NULL,
    opened_by text NOT NULL,
    opened_at timestamp with time zone NOT NULL,
    look_at timestamp with time zone,
    doomed_at timestamp with time zone,
    CONSTRAINT payload_objects_check CHECK ((((state = 'kept'::text) = (look_at IS NULL)) AND ((state = 'doomed'::text) = (doomed_at IS NOT NULL)))),
    CONSTRAINT payload_objects_state_check CHECK ((state = ANY (ARRAY['arriving'::text, 'kept'::text, 'doomed'::text])))
);

ALTER TABLE ONLY everwhen.payload_objects FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.payload_usage (
    tenant_id uuid NOT NULL,
    size_bytes bigint DEFAULT 0 NOT NULL,
    payloads bigint DEFAULT 0 NOT NULL,
    CONSTRAINT payload_usage_payloads_check CHECK ((payloads >= 0)),
    CONSTRAINT payload_usage_size_bytes_check CHECK ((size_bytes >= 0))
);

ALTER TABLE ONLY everwhen.payload_usage FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.payload_users (
    tenant_id uuid NOT NULL,
    digest text NOT NULL,
    schedule_uid uuid NOT NULL
);

ALTER TABLE ONLY everwhen.payload_users FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.payloads (
    tenant_id uuid NOT NULL,
    digest text NOT NULL,
    object_id uuid NOT NULL,
    size_bytes bigint NOT NULL,
    pieces integer NOT NULL,
    name text,
    media_type text,
    look_at timestamp with time zone,
    created_by text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT payloads_digest_check CHECK ((digest ~ '^sha256:[0-9a-f]{64}$'::text)),
    CONSTRAINT payloads_pieces_check CHECK ((pieces >= 0)),
    CONSTRAINT payloads_size_bytes_check CHECK ((size_bytes >= 0))
);

ALTER TABLE ONLY everwhen.payloads FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.punctuality (
    tenant_id uuid NOT NULL,
    schedule_uid uuid NOT NULL,
    day date NOT NULL,
    on_time bigint NOT NULL,
    late bigint NOT NULL,
    buckets bigint[] NOT NULL
);

ALTER TABLE ONLY everwhen.punctuality FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.queue_shares (
    tenant_id uuid NOT NULL,
    queue text NOT NULL,
    weight integer DEFAULT 1 NOT NULL,
    max_in_flight integer,
    revision integer DEFAULT 1 NOT NULL,
    changed_by text NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT queue_shares_max_in_flight_check CHECK ((max_in_flight >= 0)),
    CONSTRAINT queue_shares_queue_check CHECK (((length(queue) >= 1) AND (length(queue) <= 200))),
    CONSTRAINT queue_shares_weight_check CHECK (((weight >= 1) AND (weight <= 1000)))
);

ALTER TABLE ONLY everwhen.queue_shares FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.queues (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    max_in_flight integer,
    rate_tokens integer,
    rate_seconds double precision,
    rate_burst integer,
    delivery text DEFAULT 'pull'::text NOT NULL,
    delivery_settings jsonb DEFAULT '{}'::jsonb NOT NULL,
    ageing_seconds double precision DEFAULT 3600,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    owner text,
    revision integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    deleted_at timestamp with time zone,
    CONSTRAINT queues_ageing_seconds_check CHECK ((ageing_seconds > (0)::double precision)),
    CONSTRAINT queues_check CHECK ((num_nulls(rate_tokens, rate_seconds, rate_burst) = ANY (ARRAY[0, 3]))),
    CONSTRAINT queues_delivery_check CHECK ((delivery = ANY (ARRAY['pull'::text, 'nats'::text, 'rabbitmq'::text, 'webhook'::text]))),
    CONSTRAINT queues_delivery_settings_check CHECK ((jsonb_typeof(delivery_settings) = 'object'::text)),
    CONSTRAINT queues_max_in_flight_check CHECK ((max_in_flight >= 0)),
    CONSTRAINT queues_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT queues_owner_check CHECK (((length(owner) >= 1) AND (length(owner) <= 200))),
    CONSTRAINT queues_rate_burst_check CHECK ((rate_burst >= 1)),
    CONSTRAINT queues_rate_seconds_check CHECK ((rate_seconds > (0)::double precision)),
    CONSTRAINT queues_rate_tokens_check CHECK ((rate_tokens >= 1)),
    CONSTRAINT queues_tags_check CHECK ((cardinality(tags) <= 20))
);

ALTER TABLE ONLY everwhen.queues FORCE ROW LEVEL SECURITY;

CREATE UNLOGGED TABLE everwhen.rate_buckets (
    key bytea NOT NULL,
    full_at timestamp with time zone NOT NULL,
    granted integer NOT NULL,
    quota integer NOT NULL,
    seconds double precision NOT NULL,
    owed integer NOT NULL,
    wanted integer NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE everwhen.replies (
    tenant_id uuid NOT NULL,
    principal text NOT NULL,
    operation text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    status smallint NOT NULL,
    headers jsonb NOT NULL,
    body bytea NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT replies_key_check CHECK (((length(key) >= 1) AND (length(key) <= 255)))
);

ALTER TABLE ONLY everwhen.replies FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.request_counts (
    tenant_id uuid NOT NULL,
    day date NOT NULL,
    requests bigint NOT NULL,
    refused bigint NOT NULL,
    worker_requests bigint NOT NULL
)
WITH (fillfactor='50');

ALTER TABLE ONLY everwhen.request_counts FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.revocations (
    tenant_id uuid NOT NULL,
    kind text NOT NULL,
    value text NOT NULL,
    issued_until timestamp with time zone NOT NULL,
    reason text NOT NULL,
    revoked_by text NOT NULL,
    revoked_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT revocations_kind_check CHECK ((kind = ANY (ARRAY['token'::text, 'subject'::text]))),
    CONSTRAINT revocations_value_check CHECK (((length(value) >= 1) AND (length(value) <= 250)))
);

ALTER TABLE ONLY everwhen.revocations FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.run_counts (
    tenant_id uuid NOT NULL,
    day date NOT NULL,
    shard smallint NOT NULL,
    runs bigint NOT NULL,
    skipped bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');

ALTER TABLE ONLY everwhen.run_counts FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.run_ends (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    state text NOT NULL,
    reason text,
    attempts smallint NOT NULL,
    finished_at timestamp with time zone NOT NULL,
    fingerprint text,
    CONSTRAINT run_ends_state_check CHECK ((state = ANY (ARRAY['succeeded'::text, 'dead'::text, 'cancelled'::text, 'expired'::text, 'skipped'::text, 'missed'::text, 'coalesced'::text])))
)
PARTITION BY RANGE (run_id);

ALTER TABLE ONLY everwhen.run_ends FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.runs (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    schedule_uid uuid,
    schedule_revision integer,
    source text NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL,
    nominal_at timestamp with time zone,
    utc_offset_seconds integer,
    due_at timestamp with time zone NOT NULL,
    planned_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    input jsonb NOT NULL,
    tz_version text,
    origin_run_id uuid,
    stands_for jsonb,
    operation_id uuid
)
PARTITION BY RANGE (run_id);

ALTER TABLE ONLY everwhen.runs FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.schedule_revisions (
    tenant_id uuid NOT NULL,
    uid uuid NOT NULL,
    revision integer NOT NULL,
    action text NOT NULL,
    task text NOT NULL,
    spec jsonb NOT NULL,
    input jsonb NOT NULL,
    priority smallint,
    changed_by text NOT NULL,
    reason text,
    changed_at timestamp with time zone NOT NULL,
    tz_version text,
    paused_until timestamp with time zone,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    owner text,
    CONSTRAINT schedule_revisions_action_check CHECK ((action = ANY (ARRAY['created'::text, 'updated'::text, 'paused'::text, 'resumed'::text, 'released'::text, 'deleted'::text, 'rezoned'::text])))
);

ALTER TABLE ONLY everwhen.schedule_revisions FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.schedules (
    tenant_id uuid NOT NULL,
    uid uuid NOT NULL,
    name text NOT NULL,
    state text NOT NULL,
    state_reason text,
    revision integer NOT NULL,
    task text NOT NULL,
    spec jsonb NOT NULL,
    input jsonb NOT NULL,
    priority smallint,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    is_followed boolean DEFAULT false NOT NULL,
    is_gated boolean DEFAULT false NOT NULL,
    paused_until timestamp with time zone,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    owner text,
    CONSTRAINT schedules_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT schedules_owner_check CHECK (((length(owner) >= 1) AND (length(owner) <= 200))),
    CONSTRAINT schedules_priority_check CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT schedules_revision_check CHECK ((revision > 0)),
    CONSTRAINT schedules_state_check CHECK ((state = ANY (ARRAY['active'::text, 'paused'::text, 'deleted'::text]))),
    CONSTRAINT schedules_tags_check CHECK ((cardinality(tags) <= 20))
);

ALTER TABLE ONLY everwhen.schedules FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.sentinels (
    only_one boolean DEFAULT true NOT NULL,
    CONSTRAINT sentinels_only_one_check CHECK (only_one)
);

CREATE TABLE everwhen.service_tasks (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    owner text NOT NULL,
    dedup_id text NOT NULL,
    schedule_uid uuid,
    cron text NOT NULL,
    run_at timestamp with time zone,
    delay_seconds double precision,
    priority smallint NOT NULL,
    digest text NOT NULL,
    payload_name text,
    is_enabled boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    deleted_at timestamp with time zone,
    CONSTRAINT service_tasks_check CHECK (((cron = ''::text) = (run_at IS NOT NULL))),
    CONSTRAINT service_tasks_priority_check CHECK (((priority >= 0) AND (priority <= 9)))
);

ALTER TABLE ONLY everwhen.service_tasks FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.service_tokens (
    tenant_id uuid NOT NULL,
    token_id uuid NOT NULL,
    name text NOT NULL,
    roles text[] NOT NULL,
    queues text[],
    tasks text[],
    secret_hash bytea NOT NULL,
    previous_hash bytea,
    previous_until timestamp with time zone,
    created_by text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    issued_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    revoked_by text,
    last_used_at timestamp with time zone,
    CONSTRAINT service_tokens_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT service_tokens_previous_hash_check CHECK ((length(previous_hash) = 32)),
    CONSTRAINT service_tokens_secret_hash_check CHECK ((length(secret_hash) = 32))
)
WITH (fillfactor='70');

ALTER TABLE ONLY everwhen.service_tokens FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.sessions (
    session_id uuid NOT NULL,
    secret_hash bytea NOT NULL,
    subject text NOT NULL,
    principal jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT sessions_secret_hash_check CHECK ((length(secret_hash) = 32))
)
WITH (fillfactor='70');

CREATE TABLE everwhen.sightings (
    tenant_id uuid NOT NULL,
    queue text NOT NULL,
    server_id uuid NOT NULL,
    tasks text[],
    last_seen_at timestamp with time zone NOT NULL,
    CONSTRAINT sightings_queue_check CHECK (((length(queue) >= 1) AND (length(queue) <= 200)))
)
WITH (fillfactor='50');

ALTER TABLE ONLY everwhen.sightings FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.spans (
    tenant_id uuid NOT NULL,
    schedule_uid uuid NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    instants bigint NOT NULL,
    verdict text NOT NULL,
    reason text NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    detail jsonb,
    CONSTRAINT spans_check CHECK ((last_at >= first_at)),
    CONSTRAINT spans_instants_check CHECK ((instants > 0)),
    CONSTRAINT spans_verdict_check CHECK ((verdict = ANY (ARRAY['skipped'::text, 'missed'::text, 'coalesced'::text])))
);

ALTER TABLE ONLY everwhen.spans FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.streaks (
    tenant_id uuid NOT NULL,
    schedule_uid uuid NOT NULL,
    pause_after integer NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    run_ids uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    pause_at timestamp with time zone,
    CONSTRAINT streaks_pause_after_check CHECK ((pause_after > 0))
);

ALTER TABLE ONLY everwhen.streaks FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.subscription_kinds (
    tenant_id uuid NOT NULL,
    kind text NOT NULL,
    subscription text NOT NULL
);

ALTER TABLE ONLY everwhen.subscription_kinds FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.tagged (
    tenant_id uuid NOT NULL,
    kind text NOT NULL,
    tag text NOT NULL,
    name text NOT NULL,
    CONSTRAINT tagged_kind_check CHECK ((kind = ANY (ARRAY['schedule'::text, 'task'::text, 'workflow'::text]))),
    CONSTRAINT tagged_tag_check CHECK (((length(tag) >= 1) AND (length(tag) <= 63)))
);

ALTER TABLE ONLY everwhen.tagged FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.task_limits (
    tenant_id uuid NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    max_in_flight integer,
    rate_tokens integer,
    rate_seconds double precision,
    rate_burst integer,
    rate_full_at timestamp with time zone,
    key_paths jsonb,
    key_max_in_flight integer,
    key_rate_tokens integer,
    key_rate_seconds double precision,
    key_rate_burst integer,
    key_version bigint NOT NULL,
    has_parked boolean DEFAULT false NOT NULL,
    release_at timestamp with time zone,
    adopts_until timestamp with time zone,
    requires jsonb,
    has_unfit boolean DEFAULT false NOT NULL
)
WITH (fillfactor='50');

ALTER TABLE ONLY everwhen.task_limits FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.tasks (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL,
    retry jsonb NOT NULL,
    timeout_seconds double precision,
    start_deadline_seconds double precision,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    total_deadline_seconds double precision,
    heartbeat_timeout_seconds double precision,
    revision integer DEFAULT 1 NOT NULL,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    owner text,
    max_in_flight integer,
    rate jsonb,
    concurrency jsonb,
    requires jsonb,
    deleted_at timestamp with time zone,
    CONSTRAINT tasks_heartbeat_timeout_seconds_check CHECK ((heartbeat_timeout_seconds >= (1)::double precision)),
    CONSTRAINT tasks_max_in_flight_check CHECK ((max_in_flight >= 1)),
    CONSTRAINT tasks_name_check CHECK (((length(name) >= 1) AND (length(name) <= 220))),
    CONSTRAINT tasks_owner_check CHECK (((length(owner) >= 1) AND (length(owner) <= 200))),
    CONSTRAINT tasks_priority_check CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT tasks_queue_check CHECK (((length(queue) >= 1) AND (length(queue) <= 200))),
    CONSTRAINT tasks_revision_check CHECK ((revision > 0)),
    CONSTRAINT tasks_start_deadline_seconds_check CHECK ((start_deadline_seconds > (0)::double precision)),
    CONSTRAINT tasks_tags_check CHECK ((cardinality(tags) <= 20)),
    CONSTRAINT tasks_timeout_seconds_check CHECK ((timeout_seconds > (0)::double precision)),
    CONSTRAINT tasks_total_deadline_seconds_check CHECK ((total_deadline_seconds > (0)::double precision))
);

ALTER TABLE ONLY everwhen.tasks FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.tenant_keys (
    tenant_id uuid NOT NULL,
    wrapped bytea NOT NULL,
    wrapped_by text NOT NULL,
    wrapped_at timestamp with time zone NOT NULL,
    CONSTRAINT tenant_keys_wrapped_by_check CHECK (((length(wrapped_by) >= 1) AND (length(wrapped_by) <= 64))),
    CONSTRAINT tenant_keys_wrapped_check CHECK (((octet_length(wrapped) >= 40) AND (octet_length(wrapped) <= 200)))
);

ALTER TABLE ONLY everwhen.tenant_keys FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.tenant_limits (
    tenant_id uuid NOT NULL,
    revision integer NOT NULL,
    attempts bigint,
    calendars bigint,
    channels bigint,
    members bigint,
    minimum_interval_seconds bigint,
    payload_bytes bigint,
    requests_per_minute bigint,
    runs_per_day bigint,
    schedules bigint,
    subscriptions bigint,
    tasks bigint,
    tokens bigint,
    workflows bigint,
    changed_by text NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    queues bigint,
    in_flight bigint,
    log_bytes bigint,
    CONSTRAINT tenant_limits_attempts_check CHECK ((attempts >= 1)),
    CONSTRAINT tenant_limits_calendars_check CHECK ((calendars >= 0)),
    CONSTRAINT tenant_limits_channels_check CHECK ((channels >= 0)),
    CONSTRAINT tenant_limits_in_flight_check CHECK (((in_flight >= 0) AND (in_flight <= 100000))),
    CONSTRAINT tenant_limits_log_bytes_check CHECK ((log_bytes >= 0)),
    CONSTRAINT tenant_limits_members_check CHECK ((members >= 0)),
    CONSTRAINT tenant_limits_minimum_interval_seconds_check CHECK ((minimum_interval_seconds >= 1)),
    CONSTRAINT tenant_limits_payload_bytes_check CHECK ((payload_bytes >= 0)),
    CONSTRAINT tenant_limits_queues_check CHECK ((queues >= 0)),
    CONSTRAINT tenant_limits_requests_per_minute_check CHECK ((requests_per_minute >= 6)),
    CONSTRAINT tenant_limits_revision_check CHECK ((revision > 0)),
    CONSTRAINT tenant_limits_runs_per_day_check CHECK ((runs_per_day >= 0)),
    CONSTRAINT tenant_limits_schedules_check CHECK ((schedules >= 0)),
    CONSTRAINT tenant_limits_subscriptions_check CHECK ((subscriptions >= 0)),
    CONSTRAINT tenant_limits_tasks_check CHECK ((tasks >= 0)),
    CONSTRAINT tenant_limits_tokens_check CHECK ((tokens >= 0)),
    CONSTRAINT tenant_limits_workflows_check CHECK ((workflows >= 0))
);

ALTER TABLE ONLY everwhen.tenant_limits FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.tenants (
    id uuid NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT tenants_name_check CHECK ((name ~ '^[a-z0-9][a-z0-9-]{0,62}$'::text))
);

ALTER TABLE ONLY everwhen.tenants FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.waiting (
    tenant_id uuid NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL,
    available_at timestamp with time zone NOT NULL,
    run_id uuid NOT NULL,
    task text NOT NULL,
    attempts smallint DEFAULT 0 NOT NULL,
    failures smallint DEFAULT 0 NOT NULL,
    expires_at timestamp with time zone,
    is_followed boolean DEFAULT false NOT NULL,
    policy jsonb,
    limit_group text COLLATE pg_catalog."C",
    parked_at timestamp with time zone,
    CONSTRAINT waiting_parked_check CHECK (((priority < 0) = ((limit_group IS NOT NULL) AND (limit_group < 'parked!'::text) AND (limit_group >= 'parked '::text)))),
    CONSTRAINT waiting_priority_check CHECK (((priority >= '-10'::integer) AND (priority <= 9)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='100000', autovacuum_analyze_scale_factor='0.02', autovacuum_analyze_threshold='2000');

ALTER TABLE ONLY everwhen.waiting FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.watermarks (
    tenant_id uuid NOT NULL,
    schedule_uid uuid NOT NULL,
    decided_until timestamp with time zone NOT NULL,
    next_at timestamp with time zone,
    skip_until timestamp with time zone,
    skip_reason text,
    failures integer DEFAULT 0 NOT NULL,
    last_error text,
    tz_version text,
    answered timestamp with time zone[]
);

ALTER TABLE ONLY everwhen.watermarks FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.workers (
    tenant_id uuid NOT NULL,
    worker_id uuid NOT NULL,
    instance uuid NOT NULL,
    name text NOT NULL,
    sdk text,
    version text,
    host text,
    pid integer,
    slots integer NOT NULL,
    tasks text[],
    queues text[] NOT NULL,
    labels jsonb NOT NULL,
    resources jsonb NOT NULL,
    announced_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    held integer NOT NULL,
    in_use jsonb NOT NULL,
    heard text NOT NULL,
    is_stopping boolean NOT NULL,
    wish text DEFAULT 'active'::text NOT NULL,
    exits boolean DEFAULT false NOT NULL,
    wished_by text,
    wished_why text,
    wished_at timestamp with time zone,
    CONSTRAINT workers_heard_check CHECK ((heard = ANY (ARRAY['active'::text, 'draining'::text, 'cordoned'::text]))),
    CONSTRAINT workers_held_check CHECK ((held >= 0)),
    CONSTRAINT workers_host_check CHECK (((length(host) >= 1) AND (length(host) <= 200))),
    CONSTRAINT workers_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT workers_pid_check CHECK ((pid > 0)),
    CONSTRAINT workers_queues_check CHECK (((cardinality(queues) >= 1) AND (cardinality(queues) <= 64))),
    CONSTRAINT workers_sdk_check CHECK (((length(sdk) >= 1) AND (length(sdk) <= 100))),
    CONSTRAINT workers_slots_check CHECK (((slots >= 1) AND (slots <= 100000))),
    CONSTRAINT workers_version_check CHECK (((length(version) >= 1) AND (length(version) <= 100))),
    CONSTRAINT workers_wish_check CHECK ((wish = ANY (ARRAY['active'::text, 'draining'::text, 'cordoned'::text]))),
    CONSTRAINT workers_wished_why_check CHECK ((length(wished_why) <= 500))
)
WITH (fillfactor='50');

ALTER TABLE ONLY everwhen.workers FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.workflow_keys (
    tenant_id uuid NOT NULL,
    key text NOT NULL,
    node_run_id uuid NOT NULL
);

ALTER TABLE ONLY everwhen.workflow_keys FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.workflow_nodes (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    node text NOT NULL,
    instance integer DEFAULT '-1'::integer NOT NULL,
    state text NOT NULL,
    tally integer[] DEFAULT '{0,0,0,0,0}'::integer[] NOT NULL,
    node_run_id uuid,
    kept_run_id uuid,
    taken text[],
    reason text,
    detail jsonb,
    is_held boolean DEFAULT false NOT NULL,
    concurrency_key text,
    item jsonb,
    instances integer,
    instances_released integer DEFAULT 0 NOT NULL,
    instances_ended integer DEFAULT 0 NOT NULL,
    decided_at timestamp with time zone,
    ended_at timestamp with time zone
);

ALTER TABLE ONLY everwhen.workflow_nodes FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.workflow_runs (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    workflow text NOT NULL,
    version integer NOT NULL,
    root_run_id uuid NOT NULL,
    generation smallint NOT NULL,
    rerun_of uuid,
    rerun_nodes text[],
    nesting smallint NOT NULL,
    priority smallint,
    lease_token bigint,
    started_at timestamp with time zone,
    deadline_at timestamp with time zone,
    halt text,
    ordinary integer[] DEFAULT '{0,0,0,0,0}'::integer[] NOT NULL,
    leaves integer[] DEFAULT '{0,0,0,0,0}'::integer[] NOT NULL,
    finals integer[] DEFAULT '{0,0,0,0,0}'::integer[] NOT NULL,
    live integer DEFAULT 0 NOT NULL,
    look_at timestamp with time zone,
    ended_at timestamp with time zone,
    CONSTRAINT workflow_runs_generation_check CHECK ((generation > 0)),
    CONSTRAINT workflow_runs_halt_check CHECK ((halt = ANY (ARRAY['fail_fast'::text, 'cancel'::text, 'deadline'::text])))
);

ALTER TABLE ONLY everwhen.workflow_runs FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.workflow_versions (
    tenant_id uuid NOT NULL,
    workflow text NOT NULL,
    version integer NOT NULL,
    definition jsonb NOT NULL,
    changed_by text NOT NULL,
    reason text,
    changed_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY everwhen.workflow_versions FORCE ROW LEVEL SECURITY;

CREATE TABLE everwhen.workflows (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    owner text,
    deleted_at timestamp with time zone,
    CONSTRAINT workflows_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT workflows_owner_check CHECK (((length(owner) >= 1) AND (length(owner) <= 200))),
    CONSTRAINT workflows_tags_check CHECK ((cardinality(tags) <= 20)),
    CONSTRAINT workflows_version_check CHECK ((version > 0))
);

ALTER TABLE ONLY everwhen.workflows FORCE ROW LEVEL SECURITY;

ALTER TABLE ONLY everwhen.admitted
    ADD CONSTRAINT admitted_pkey PRIMARY KEY (tenant_id, schedule_uid, run_id);

ALTER TABLE ONLY everwhen.alert_channels
    ADD CONSTRAINT alert_channels_pkey PRIMARY KEY (tenant_id, name);

ALTER TABLE ONLY everwhen.alert_deliveries
    ADD CONSTRAINT alert_deliveries_pkey PRIMARY KEY (tenant_id, delivery_id);

ALTER TABLE ONLY everwhen.alert_listeners
    ADD CONSTRAINT alert_listeners_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY everwhen.alert_outlets
    ADD CONSTRAINT alert_outlets_pkey PRIMARY KEY (tenant_id, channel, recipient);

ALTER TABLE ONLY everwhen.alert_routes
    ADD CONSTRAINT alert_routes_pkey PRIMARY KEY (tenant_id, subscription, channel);

ALTER TABLE ONLY everwhen.alert_secrets
    ADD CONSTRAINT alert_secrets_pkey PRIMARY KEY (tenant_id, channel, name);

ALTER TABLE ONLY everwhen.alert_signals
    ADD CONSTRAINT alert_signals_pkey PRIMARY KEY (tenant_id, signal_id);

ALTER TABLE ONLY everwhen.alert_subscriptions
    ADD CONSTRAINT alert_subscriptions_pkey PRIMARY KEY (tenant_id, name);

ALTER TABLE ONLY everwhen.alert_templates
    ADD CONSTRAINT alert_templates_pkey PRIMARY KEY (tenant_id, kind, part);

ALTER TABLE ONLY everwhen.alert_told
    ADD CONSTRAINT alert_told_pkey PRIMARY KEY (tenant_id, channel, recipient, occasion_id);

ALTER TABLE ONLY everwhen.alert_tries
    ADD CONSTRAINT alert_tries_pkey PRIMARY KEY (tenant_id, delivery_id, try);

ALTER TABLE ONLY everwhen.alert_watched
    ADD CONSTRAINT alert_watched_pkey PRIMARY KEY (tenant_id, kind, run_id, attempt);

ALTER TABLE ONLY everwhen.arrears
    ADD CONSTRAINT arrears_pkey PRIMARY KEY (tenant_id, schedule_uid, arrears_id);

ALTER TABLE ONLY everwhen.attempt_logs
    ADD CONSTRAINT attempt_logs_pkey PRIMARY KEY (tenant_id, run_id, attempt);

ALTER TABLE ONLY everwhen.attempt_logs
    ADD CONSTRAINT attempt_logs_tenant_id_object_id_key UNIQUE (tenant_id, object_id);

ALTER TABLE ONLY everwhen.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (tenant_id, run_id, attempt);

ALTER TABLE ONLY everwhen.audit_epochs
    ADD CONSTRAINT audit_epochs_pkey PRIMARY KEY (epoch);

ALTER TABLE ONLY everwhen.audit_epochs
    ADD CONSTRAINT audit_epochs_server_timeline_key UNIQUE (server, timeline);

ALTER TABLE ONLY everwhen.audit_events
    ADD CONSTRAINT audit_events_pkey PRIMARY KEY (tenant_id, event_id);

ALTER TABLE ONLY everwhen.audit_heads
    ADD CONSTRAINT audit_heads_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY everwhen.audit_links
    ADD CONSTRAINT audit_links_pkey PRIMARY KEY (tenant_id, event_id);

ALTER TABLE ONLY everwhen.audit_unsealed
    ADD CONSTRAINT audit_unsealed_pkey PRIMARY KEY (tenant_id, event_id);

ALTER TABLE ONLY everwhen.brokers
    ADD CONSTRAINT brokers_pkey PRIMARY KEY (broker);

ALTER TABLE ONLY everwhen.calendar_changes
    ADD CONSTRAINT calendar_changes_pkey PRIMARY KEY (tenant_id, calendar);

ALTER TABLE ONLY everwhen.calendar_users
    ADD CONSTRAINT calendar_users_pkey PRIMARY KEY (tenant_id, calendar, schedule_uid);

ALTER TABLE ONLY everwhen.calendar_versions
    ADD CONSTRAINT calendar_versions_pkey PRIMARY KEY (tenant_id, calendar, version);

ALTER TABLE ONLY everwhen.calendars
    ADD CONSTRAINT calendars_pkey PRIMARY KEY (tenant_id, name);

ALTER TABLE ONLY everwhen.cuts
    ADD CONSTRAINT cuts_pkey PRIMARY KEY (cut);

ALTER TABLE ONLY everwhen.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (tenant_id, run_id);

ALTER TABLE ONLY everwhen.endpoint_secrets
    ADD CONSTRAINT endpoint_secrets_pkey PRIMARY KEY (tenant_id, queue, name);

ALTER TABLE ONLY everwhen.endpoint_states
    ADD CONSTRAINT endpoint_states_pkey PRIMARY KEY (tenant_id, queue);

ALTER TABLE ONLY everwhen.endpoints
    ADD CONSTRAINT endpoints_pkey PRIMARY KEY (tenant_id, queue);

ALTER TABLE ONLY everwhen.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (tenant_id, run_id, event_id);

ALTER TABLE ONLY everwhen.finding_events
    ADD CONSTRAINT finding_events_pkey PRIMARY KEY (tenant_id, event_id);

ALTER TABLE ONLY everwhen.findings
    ADD CONSTRAINT findings_pkey PRIMARY KEY (tenant_id, finding_id);

ALTER TABLE ONLY everwhen.gates
    ADD CONSTRAINT gates_pkey PRIMARY KEY (tenant_id, schedule_uid);

ALTER TABLE ONLY everwhen.held
    ADD CONSTRAINT held_pkey PRIMARY KEY (tenant_id, schedule_uid, line_at, run_id);

ALTER TABLE ONLY everwhen.key_rates
    ADD CONSTRAINT key_rates_pkey PRIMARY KEY (tenant_id, task, limit_key);

ALTER TABLE ONLY everwhen.lanes
    ADD CONSTRAINT lanes_pkey PRIMARY KEY (tenant_id, queue);

ALTER TABLE ONLY everwhen.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (tenant_id, run_id);

ALTER TABLE ONLY everwhen.line_states
    ADD CONSTRAINT line_states_pkey PRIMARY KEY (tenant_id, queue, task, reason, opened_at);

ALTER TABLE ONLY everwhen.log_bytes
    ADD CONSTRAINT log_bytes_pkey PRIMARY KEY (tenant_id, shard);

ALTER TABLE ONLY everwhen.log_pieces
    ADD CONSTRAINT log_pieces_pkey PRIMARY KEY (tenant_id, object_id, starts_at);

ALTER TABLE ONLY everwhen.measured
    ADD CONSTRAINT measured_pkey PRIMARY KEY (tenant_id, schedule_uid);

ALTER TABLE ONLY everwhen.members
    ADD CONSTRAINT members_pkey PRIMARY KEY (tenant_id, subject);

ALTER TABLE ONLY everwhen.observations
    ADD CONSTRAINT observations_pkey PRIMARY KEY (observer_id, since);

ALTER TABLE ONLY everwhen.operation_items
    ADD CONSTRAINT operation_items_pkey PRIMARY KEY (tenant_id, operation_id, seq);

ALTER TABLE ONLY everwhen.operations
    ADD CONSTRAINT operations_pkey PRIMARY KEY (tenant_id, id);

ALTER TABLE ONLY everwhen.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (tenant_id, run_id);

ALTER TABLE ONLY everwhen.pause_changes
    ADD CONSTRAINT pause_changes_pkey PRIMARY KEY (tenant_id, change_id);

ALTER TABLE ONLY everwhen.pauses
    ADD CONSTRAINT pauses_pkey PRIMARY KEY (tenant_id, queue);

ALTER TABLE ONLY everwhen.payload_objects
    ADD CONSTRAINT payload_objects_pkey PRIMARY KEY (tenant_id, id);

ALTER TABLE ONLY everwhen.payload_usage
    ADD CONSTRAINT payload_usage_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY everwhen.payload_users
    ADD CONSTRAINT payload_users_pkey PRIMARY KEY (tenant_id, digest, schedule_uid);

ALTER TABLE ONLY everwhen.payloads
    ADD CONSTRAINT payloads_pkey PRIMARY KEY (tenant_id, digest);

ALTER TABLE ONLY everwhen.punctuality
    ADD CONSTRAINT punctuality_pkey PRIMARY KEY (tenant_id, schedule_uid, day);

ALTER TABLE ONLY everwhen.queue_shares
    ADD CONSTRAINT queue_shares_pkey PRIMARY KEY (tenant_id, queue);

ALTER TABLE ONLY everwhen.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (tenant_id, name);

ALTER TABLE ONLY everwhen.rate_buckets
    ADD CONSTRAINT rate_buckets_pkey PRIMARY KEY (key);

ALTER TABLE ONLY everwhen.replies
    ADD CONSTRAINT replies_pkey PRIMARY KEY (tenant_id, principal, operation, key);

ALTER TABLE ONLY everwhen.request_counts
    ADD CONSTRAINT request_counts_pkey PRIMARY KEY (tenant_id, day);

ALTER TABLE ONLY everwhen.revocations
    ADD CONSTRAINT revocations_pkey PRIMARY KEY (tenant_id, kind, value);

ALTER TABLE ONLY everwhen.run_counts
    ADD CONSTRAINT run_counts_pkey PRIMARY KEY (tenant_id, day, shard);

ALTER TABLE ONLY everwhen.run_ends
    ADD CONSTRAINT run_ends_pkey PRIMARY KEY (tenant_id, run_id);

ALTER TABLE ONLY everwhen.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (tenant_id, run_id);

ALTER TABLE ONLY everwhen.schedule_revisions
    ADD CONSTRAINT schedule_revisions_pkey PRIMARY KEY (tenant_id, uid, revision);

ALTER TABLE ONLY everwhen.schedules
    ADD CONSTRAINT schedules_pkey PRIMARY KEY (tenant_id, uid);

ALTER TABLE ONLY everwhen.sentinels
    ADD CONSTRAINT sentinels_pkey PRIMARY KEY (only_one);

ALTER TABLE ONLY everwhen.service_tasks
    ADD CONSTRAINT service_tasks_pkey PRIMARY KEY (tenant_id, id);

ALTER TABLE ONLY everwhen.service_tokens
    ADD CONSTRAINT service_tokens_pkey PRIMARY KEY (tenant_id, token_id);

ALTER TABLE ONLY everwhen.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (session_id);

ALTER TABLE ONLY everwhen.sessions
    ADD CONSTRAINT sessions_secret_hash_key UNIQUE (secret_hash);

ALTER TABLE ONLY everwhen.sightings
    ADD CONSTRAINT sightings_pkey PRIMARY KEY (tenant_id, queue, server_id);

ALTER TABLE ONLY everwhen.spans
    ADD CONSTRAINT spans_pkey PRIMARY KEY (tenant_id, schedule_uid, first_at);

ALTER TABLE ONLY everwhen.streaks
    ADD CONSTRAINT streaks_pkey PRIMARY KEY (tenant_id, schedule_uid);

ALTER TABLE ONLY everwhen.subscription_kinds
    ADD CONSTRAINT subscription_kinds_pkey PRIMARY KEY (tenant_id, kind, subscription);

ALTER TABLE ONLY everwhen.tagged
    ADD CONSTRAINT tagged_pkey PRIMARY KEY (tenant_id, kind, tag, name);

ALTER TABLE ONLY everwhen.task_limits
    ADD CONSTRAINT task_limits_pkey PRIMARY KEY (tenant_id, task);

ALTER TABLE ONLY everwhen.tasks
    ADD CONSTRAINT tasks_pkey PRIMARY KEY (tenant_id, name);

ALTER TABLE ONLY everwhen.tenant_keys
    ADD CONSTRAINT tenant_keys_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY everwhen.tenant_limits
    ADD CONSTRAINT tenant_limits_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY everwhen.tenants
    ADD CONSTRAINT tenants_name_key UNIQUE (name);

ALTER TABLE ONLY everwhen.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (id);

ALTER TABLE ONLY everwhen.waiting
    ADD CONSTRAINT waiting_pkey PRIMARY KEY (tenant_id, queue, priority, available_at, run_id);

ALTER TABLE ONLY everwhen.watermarks
    ADD CONSTRAINT watermarks_pkey PRIMARY KEY (tenant_id, schedule_uid);

ALTER TABLE ONLY everwhen.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (tenant_id, worker_id);

ALTER TABLE ONLY everwhen.workflow_keys
    ADD CONSTRAINT workflow_keys_pkey PRIMARY KEY (tenant_id, key);

ALTER TABLE ONLY everwhen.workflow_nodes
    ADD CONSTRAINT workflow_nodes_pkey PRIMARY KEY (tenant_id, run_id, node, instance);

ALTER TABLE ONLY everwhen.workflow_runs
    ADD CONSTRAINT workflow_runs_pkey PRIMARY KEY (tenant_id, run_id);

ALTER TABLE ONLY everwhen.workflow_runs
    ADD CONSTRAINT workflow_runs_tenant_id_root_run_id_generation_key UNIQUE (tenant_id, root_run_id, generation);

ALTER TABLE ONLY everwhen.workflow_versions
    ADD CONSTRAINT workflow_versions_pkey PRIMARY KEY (tenant_id, workflow, version);

ALTER TABLE ONLY everwhen.workflows
    ADD CONSTRAINT workflows_pkey PRIMARY KEY (tenant_id, name);

CREATE UNIQUE INDEX admitted_run ON everwhen.admitted USING btree (run_id, tenant_id);

CREATE INDEX alert_deliveries_channel ON everwhen.alert_deliveries USING btree (tenant_id, channel, delivery_id);

CREATE INDEX alert_deliveries_finished ON everwhen.alert_deliveries USING btree (finished_at) WHERE (finished_at IS NOT NULL);

CREATE INDEX alert_deliveries_look ON everwhen.alert_deliveries USING btree (look_at) WHERE (look_at IS NOT NULL);

CREATE INDEX alert_deliveries_state ON everwhen.alert_deliveries USING btree (tenant_id, state, delivery_id);

CREATE INDEX alert_routes_channel ON everwhen.alert_routes USING btree (tenant_id, channel);

CREATE INDEX alert_told_delivery ON everwhen.alert_told USING btree (tenant_id, delivery_id);

CREATE INDEX alert_watched_since ON everwhen.alert_watched USING btree (since);

CREATE INDEX arrears_look ON everwhen.arrears USING btree (look_at) WHERE (look_at IS NOT NULL);

CREATE INDEX arrears_unfinished ON everwhen.arrears USING btree (tenant_id, schedule_uid, arrears_id) WHERE (finished_at IS NULL);

CREATE INDEX attempt_logs_opened ON everwhen.attempt_logs USING btree (opened_at);

CREATE INDEX audit_events_actor ON ONLY everwhen.audit_events USING btree (tenant_id, actor, event_id);

CREATE INDEX audit_events_operation ON ONLY everwhen.audit_events USING btree (tenant_id, operation, event_id);

CREATE INDEX audit_events_request ON ONLY everwhen.audit_events USING btree (tenant_id, request_id, event_id);

CREATE INDEX audit_events_resource ON ONLY everwhen.audit_events USING btree (tenant_id, resource, event_id);

CREATE INDEX audit_heads_anchored_at ON everwhen.audit_heads USING btree (anchored_at);

CREATE INDEX audit_links_seq ON ONLY everwhen.audit_links USING btree (tenant_id, seq);

CREATE INDEX calendar_users_schedule ON everwhen.calendar_users USING btree (schedule_uid, tenant_id);

CREATE INDEX calendars_by_owner ON everwhen.calendars USING btree (tenant_id, owner, name) WHERE (deleted_at IS NULL);

CREATE INDEX calendars_listed ON everwhen.calendars USING btree (tenant_id, name) WHERE (deleted_at IS NULL);

CREATE INDEX events_written ON ONLY everwhen.events USING btree (tenant_id, written_by) WHERE (written_by IS NOT NULL);

CREATE INDEX findings_newest ON everwhen.findings USING btree (finding_id);

CREATE UNIQUE INDEX findings_open ON everwhen.findings USING btree (tenant_id, kind, subject) WHERE (closed_at IS NULL);

CREATE INDEX findings_open_everywhere ON everwhen.findings USING btree (finding_id) WHERE (closed_at IS NULL);

CREATE INDEX findings_open_kind ON everwhen.findings USING btree (kind, tenant_id, finding_id) WHERE (closed_at IS NULL);

CREATE INDEX findings_open_newest ON everwhen.findings USING btree (tenant_id, finding_id) WHERE (closed_at IS NULL);

CREATE INDEX held_look ON everwhen.held USING btree (look_at) WHERE (look_at IS NOT NULL);

CREATE UNIQUE INDEX held_run ON everwhen.held USING btree (run_id, tenant_id);

CREATE INDEX key_rates_full ON everwhen.key_rates USING btree (full_at);

CREATE INDEX lanes_queue ON everwhen.lanes USING btree (queue, virtual_time);

CREATE INDEX leases_cancelled_workflows ON everwhen.leases USING btree (tenant_id, run_id) WHERE ((queue = 'everwhen:workflows'::text) AND (cancel_requested_at IS NOT NULL));

CREATE INDEX leases_lane ON everwhen.leases USING btree (tenant_id, queue) WHERE (lease_token > 0);

CREATE INDEX leases_limited ON everwhen.leases USING btree (tenant_id, task, limit_key) WHERE (limit_key IS NOT NULL);

CREATE INDEX line_states_ended ON everwhen.line_states USING btree (tenant_id, queue, until) WHERE (until IS NOT NULL);

CREATE UNIQUE INDEX line_states_open ON everwhen.line_states USING btree (tenant_id, queue, task, reason) WHERE (until IS NULL);

CREATE INDEX line_states_past ON everwhen.line_states USING btree (until) WHERE (until IS NOT NULL);

CREATE INDEX members_subject ON everwhen.members USING btree (subject);

CREATE INDEX observations_until ON everwhen.observations USING btree (until);

CREATE INDEX operation_items_state ON everwhen.operation_items USING btree (tenant_id, operation_id, state, seq);

CREATE INDEX operations_next ON everwhen.operations USING btree (next_at) WHERE (next_at IS NOT NULL);

CREATE INDEX outbox_line ON everwhen.outbox USING btree (queue, tenant_id);

CREATE INDEX outbox_look ON everwhen.outbox USING btree (broker, look_at);

CREATE INDEX pauses_until ON everwhen.pauses USING btree (paused_until) WHERE (paused_until IS NOT NULL);

CREATE INDEX payload_objects_arriving ON everwhen.payload_objects USING btree (tenant_id) WHERE (state = 'arriving'::text);

CREATE INDEX payload_objects_look ON everwhen.payload_objects USING btree (look_at) WHERE (look_at IS NOT NULL);

CREATE INDEX payload_users_schedule ON everwhen.payload_users USING btree (schedule_uid, tenant_id);

CREATE INDEX payloads_look ON everwhen.payloads USING btree (look_at) WHERE (look_at IS NOT NULL);

CREATE INDEX queues_by_owner ON everwhen.queues USING btree (tenant_id, owner, name) WHERE (deleted_at IS NULL);

CREATE INDEX replies_expired ON everwhen.replies USING btree (expires_at);

CREATE INDEX revocations_at ON everwhen.revocations USING btree (revoked_at);

CREATE INDEX revocations_expiry ON everwhen.revocations USING btree (expires_at);

CREATE INDEX run_counts_shards ON everwhen.run_counts USING btree (day) WHERE (shard <> 0);

CREATE INDEX run_ends_fingerprint ON ONLY everwhen.run_ends USING btree (tenant_id, fingerprint, run_id) WHERE (state = 'dead'::text);

CREATE INDEX run_ends_unwell ON ONLY everwhen.run_ends USING btree (tenant_id, state, run_id) WHERE (state <> 'succeeded'::text);

CREATE INDEX runs_operation ON ONLY everwhen.runs USING btree (tenant_id, operation_id, run_id) WHERE (operation_id IS NOT NULL);

CREATE INDEX runs_origin ON ONLY everwhen.runs USING btree (tenant_id, origin_run_id, run_id) WHERE (origin_run_id IS NOT NULL);

CREATE INDEX runs_schedule ON ONLY everwhen.runs USING btree (tenant_id, schedule_uid, run_id) WHERE (schedule_uid IS NOT NULL);

CREATE INDEX runs_workflows ON ONLY everwhen.runs USING btree (tenant_id, run_id) WHERE (queue = 'everwhen:workflows'::text);

CREATE INDEX schedules_by_owner ON everwhen.schedules USING btree (tenant_id, owner, name) WHERE (state <> 'deleted'::text);

CREATE UNIQUE INDEX schedules_name ON everwhen.schedules USING btree (tenant_id, name) WHERE (state <> 'deleted'::text);

CREATE INDEX schedules_paused_until ON everwhen.schedules USING btree (paused_until) WHERE (paused_until IS NOT NULL);

CREATE INDEX schedules_target ON everwhen.schedules USING btree (tenant_id, task, name) WHERE (state <> 'deleted'::text);

CREATE UNIQUE INDEX service_tasks_dedup ON everwhen.service_tasks USING btree (tenant_id, owner, dedup_id) WHERE (deleted_at IS NULL);

CREATE INDEX service_tasks_live ON everwhen.service_tasks USING btree (tenant_id, id) WHERE (deleted_at IS NULL);

CREATE INDEX service_tasks_owner ON everwhen.service_tasks USING btree (tenant_id, owner, id) WHERE (deleted_at IS NULL);

CREATE UNIQUE INDEX service_tokens_name ON everwhen.service_tokens USING btree (tenant_id, name) WHERE (revoked_at IS NULL);

CREATE INDEX service_tokens_previous ON everwhen.service_tokens USING btree (previous_hash) WHERE (previous_hash IS NOT NULL);

CREATE INDEX service_tokens_secret ON everwhen.service_tokens USING btree (secret_hash);

CREATE INDEX sessions_expiry ON everwhen.sessions USING btree (expires_at);

CREATE INDEX sightings_age ON everwhen.sightings USING btree (last_seen_at);

CREATE INDEX streaks_pause ON everwhen.streaks USING btree (pause_at) WHERE (pause_at IS NOT NULL);

CREATE INDEX subscription_kinds_word ON everwhen.subscription_kinds USING btree (kind, tenant_id);

CREATE INDEX task_limits_parked ON everwhen.task_limits USING btree (tenant_id, task) WHERE has_parked;

CREATE INDEX task_limits_release ON everwhen.task_limits USING btree (tenant_id, queue, release_at) WHERE (release_at IS NOT NULL);

CREATE INDEX task_limits_unfit ON everwhen.task_limits USING btree (tenant_id, task) WHERE has_unfit;

CREATE INDEX tasks_by_owner ON everwhen.tasks USING btree (tenant_id, owner, name) WHERE (deleted_at IS NULL);

CREATE INDEX tasks_listed ON everwhen.tasks USING btree (tenant_id, name) WHERE ((queue <> 'everwhen:workflows'::text) AND (deleted_at IS NULL));

CREATE INDEX waiting_expiry ON everwhen.waiting USING btree (expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX waiting_lanes ON everwhen.waiting USING btree (queue, tenant_id, available_at) WHERE (priority >= 0);

CREATE INDEX waiting_limited ON everwhen.waiting USING btree (tenant_id, task, limit_group, priority, available_at, run_id) WHERE (limit_group IS NOT NULL);

CREATE UNIQUE INDEX waiting_run ON everwhen.waiting USING btree (tenant_id, run_id);

CREATE INDEX waiting_workflows ON everwhen.waiting USING btree (available_at) WHERE (queue = 'everwhen:workflows'::text);

CREATE INDEX watermarks_failing ON everwhen.watermarks USING btree (tenant_id, schedule_uid) WHERE (failures > 0);

CREATE INDEX watermarks_next ON everwhen.watermarks USING btree (next_at) WHERE (next_at IS NOT NULL);

CREATE UNIQUE INDEX workers_instance ON everwhen.workers USING btree (tenant_id, instance);

CREATE UNIQUE INDEX workflow_keys_run ON everwhen.workflow_keys USING btree (tenant_id, node_run_id);

CREATE INDEX workflow_nodes_freed ON everwhen.workflow_nodes USING btree (tenant_id, concurrency_key, ended_at) WHERE ((concurrency_key IS NOT NULL) AND (ended_at IS NOT NULL));

CREATE INDEX workflow_nodes_held ON everwhen.workflow_nodes USING btree (tenant_id, run_id, node, instance) WHERE is_held;

CREATE INDEX workflow_nodes_keyed ON everwhen.workflow_nodes USING btree (tenant_id, concurrency_key, decided_at) WHERE (is_held AND (concurrency_key IS NOT NULL));

CREATE UNIQUE INDEX workflow_nodes_run ON everwhen.workflow_nodes USING btree (tenant_id, node_run_id) WHERE (node_run_id IS NOT NULL);

CREATE INDEX workflow_runs_look ON everwhen.workflow_runs USING btree (look_at) WHERE (look_at IS NOT NULL);

CREATE INDEX workflow_runs_past ON everwhen.workflow_runs USING btree (tenant_id, workflow, ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX workflows_by_owner ON everwhen.workflows USING btree (tenant_id, owner, name) WHERE (deleted_at IS NULL);

CREATE INDEX workflows_listed ON everwhen.workflows USING btree (tenant_id, name) WHERE (deleted_at IS NULL);

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON everwhen.audit_epochs FOR EACH ROW EXECUTE FUNCTION everwhen.refuse_change();

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON everwhen.audit_events FOR EACH ROW EXECUTE FUNCTION everwhen.refuse_change();

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON everwhen.audit_links FOR EACH ROW EXECUTE FUNCTION everwhen.refuse_change();

CREATE TRIGGER not_truncated BEFORE TRUNCATE ON everwhen.audit_epochs FOR EACH STATEMENT EXECUTE FUNCTION everwhen.refuse_change();

CREATE TRIGGER not_truncated BEFORE TRUNCATE ON everwhen.audit_events FOR EACH STATEMENT EXECUTE FUNCTION everwhen.refuse_change();

CREATE TRIGGER not_truncated BEFORE TRUNCATE ON everwhen.audit_links FOR EACH STATEMENT EXECUTE FUNCTION everwhen.refuse_change();

CREATE TRIGGER signal_attempts AFTER INSERT ON everwhen.attempts REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION everwhen.signal_attempts();

CREATE TRIGGER signal_ends AFTER INSERT ON everwhen.run_ends REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION everwhen.signal_ends();

CREATE TRIGGER signal_findings AFTER INSERT ON everwhen.finding_events REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION everwhen.signal_findings();

CREATE TRIGGER signal_pauses AFTER INSERT ON everwhen.schedule_revisions REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION everwhen.signal_pauses();

CREATE TRIGGER signal_spans AFTER INSERT ON everwhen.spans REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION everwhen.signal_spans();

ALTER TABLE ONLY everwhen.alert_channels
    ADD CONSTRAINT alert_channels_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.alert_deliveries
    ADD CONSTRAINT alert_deliveries_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.alert_listeners
    ADD CONSTRAINT alert_listeners_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.alert_outlets
    ADD CONSTRAINT alert_outlets_tenant_id_channel_fkey FOREIGN KEY (tenant_id, channel) REFERENCES everwhen.alert_channels(tenant_id, name) ON DELETE CASCADE;

ALTER TABLE ONLY everwhen.alert_routes
    ADD CONSTRAINT alert_routes_tenant_id_channel_fkey FOREIGN KEY (tenant_id, channel) REFERENCES everwhen.alert_channels(tenant_id, name);

ALTER TABLE ONLY everwhen.alert_routes
    ADD CONSTRAINT alert_routes_tenant_id_subscription_fkey FOREIGN KEY (tenant_id, subscription) REFERENCES everwhen.alert_subscriptions(tenant_id, name) ON DELETE CASCADE;

ALTER TABLE ONLY everwhen.alert_secrets
    ADD CONSTRAINT alert_secrets_tenant_id_channel_fkey FOREIGN KEY (tenant_id, channel) REFERENCES everwhen.alert_channels(tenant_id, name) ON DELETE CASCADE;

ALTER TABLE ONLY everwhen.alert_subscriptions
    ADD CONSTRAINT alert_subscriptions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.alert_templates
    ADD CONSTRAINT alert_templates_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.alert_told
    ADD CONSTRAINT alert_told_tenant_id_delivery_id_fkey FOREIGN KEY (tenant_id, delivery_id) REFERENCES everwhen.alert_deliveries(tenant_id, delivery_id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY everwhen.alert_tries
    ADD CONSTRAINT alert_tries_tenant_id_delivery_id_fkey FOREIGN KEY (tenant_id, delivery_id) REFERENCES everwhen.alert_deliveries(tenant_id, delivery_id) ON DELETE CASCADE;

ALTER TABLE ONLY everwhen.alert_watched
    ADD CONSTRAINT alert_watched_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.arrears
    ADD CONSTRAINT arrears_tenant_id_schedule_uid_revision_fkey FOREIGN KEY (tenant_id, schedule_uid, revision) REFERENCES everwhen.schedule_revisions(tenant_id, uid, revision);

ALTER TABLE ONLY everwhen.attempt_logs
    ADD CONSTRAINT attempt_logs_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.attempt_logs
    ADD CONSTRAINT attempt_logs_tenant_id_object_id_fkey FOREIGN KEY (tenant_id, object_id) REFERENCES everwhen.payload_objects(tenant_id, id);

ALTER TABLE ONLY everwhen.calendar_users
    ADD CONSTRAINT calendar_users_tenant_id_calendar_fkey FOREIGN KEY (tenant_id, calendar) REFERENCES everwhen.calendars(tenant_id, name);

ALTER TABLE ONLY everwhen.calendar_users
    ADD CONSTRAINT calendar_users_tenant_id_schedule_uid_fkey FOREIGN KEY (tenant_id, schedule_uid) REFERENCES everwhen.schedules(tenant_id, uid);

ALTER TABLE ONLY everwhen.calendar_versions
    ADD CONSTRAINT calendar_versions_tenant_id_calendar_fkey FOREIGN KEY (tenant_id, calendar) REFERENCES everwhen.calendars(tenant_id, name);

ALTER TABLE ONLY everwhen.calendars
    ADD CONSTRAINT calendars_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.dead_letters
    ADD CONSTRAINT dead_letters_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.endpoint_secrets
    ADD CONSTRAINT endpoint_secrets_tenant_id_queue_fkey FOREIGN KEY (tenant_id, queue) REFERENCES everwhen.endpoints(tenant_id, queue) ON DELETE CASCADE;

ALTER TABLE ONLY everwhen.endpoint_states
    ADD CONSTRAINT endpoint_states_tenant_id_queue_fkey FOREIGN KEY (tenant_id, queue) REFERENCES everwhen.endpoints(tenant_id, queue) ON DELETE CASCADE;

ALTER TABLE ONLY everwhen.endpoints
    ADD CONSTRAINT endpoints_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.finding_events
    ADD CONSTRAINT finding_events_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.findings
    ADD CONSTRAINT findings_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.gates
    ADD CONSTRAINT gates_tenant_id_schedule_uid_fkey FOREIGN KEY (tenant_id, schedule_uid) REFERENCES everwhen.schedules(tenant_id, uid);

ALTER TABLE ONLY everwhen.key_rates
    ADD CONSTRAINT key_rates_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.lanes
    ADD CONSTRAINT lanes_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.log_bytes
    ADD CONSTRAINT log_bytes_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.log_pieces
    ADD CONSTRAINT log_pieces_tenant_id_object_id_fkey FOREIGN KEY (tenant_id, object_id) REFERENCES everwhen.attempt_logs(tenant_id, object_id);

ALTER TABLE ONLY everwhen.measured
    ADD CONSTRAINT measured_tenant_id_schedule_uid_fkey FOREIGN KEY (tenant_id, schedule_uid) REFERENCES everwhen.schedules(tenant_id, uid);

ALTER TABLE ONLY everwhen.members
    ADD CONSTRAINT members_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.operation_items
    ADD CONSTRAINT operation_items_tenant_id_operation_id_fkey FOREIGN KEY (tenant_id, operation_id) REFERENCES everwhen.operations(tenant_id, id);

ALTER TABLE ONLY everwhen.operations
    ADD CONSTRAINT operations_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.pause_changes
    ADD CONSTRAINT pause_changes_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.pauses
    ADD CONSTRAINT pauses_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.payload_objects
    ADD CONSTRAINT payload_objects_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.payload_usage
    ADD CONSTRAINT payload_usage_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.payload_users
    ADD CONSTRAINT payload_users_tenant_id_digest_fkey FOREIGN KEY (tenant_id, digest) REFERENCES everwhen.payloads(tenant_id, digest);

ALTER TABLE ONLY everwhen.payload_users
    ADD CONSTRAINT payload_users_tenant_id_schedule_uid_fkey FOREIGN KEY (tenant_id, schedule_uid) REFERENCES everwhen.schedules(tenant_id, uid);

ALTER TABLE ONLY everwhen.payloads
    ADD CONSTRAINT payloads_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.payloads
    ADD CONSTRAINT payloads_tenant_id_object_id_fkey FOREIGN KEY (tenant_id, object_id) REFERENCES everwhen.payload_objects(tenant_id, id);

ALTER TABLE ONLY everwhen.punctuality
    ADD CONSTRAINT punctuality_tenant_id_schedule_uid_fkey FOREIGN KEY (tenant_id, schedule_uid) REFERENCES everwhen.schedules(tenant_id, uid);

ALTER TABLE ONLY everwhen.queue_shares
    ADD CONSTRAINT queue_shares_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.queues
    ADD CONSTRAINT queues_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.replies
    ADD CONSTRAINT replies_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.request_counts
    ADD CONSTRAINT request_counts_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.run_counts
    ADD CONSTRAINT run_counts_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.schedule_revisions
    ADD CONSTRAINT schedule_revisions_tenant_id_uid_fkey FOREIGN KEY (tenant_id, uid) REFERENCES everwhen.schedules(tenant_id, uid);

ALTER TABLE ONLY everwhen.schedules
    ADD CONSTRAINT schedules_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.schedules
    ADD CONSTRAINT schedules_tenant_id_task_fkey FOREIGN KEY (tenant_id, task) REFERENCES everwhen.tasks(tenant_id, name);

ALTER TABLE ONLY everwhen.service_tasks
    ADD CONSTRAINT service_tasks_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.service_tasks
    ADD CONSTRAINT service_tasks_tenant_id_schedule_uid_fkey FOREIGN KEY (tenant_id, schedule_uid) REFERENCES everwhen.schedules(tenant_id, uid);

ALTER TABLE ONLY everwhen.service_tokens
    ADD CONSTRAINT service_tokens_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.spans
    ADD CONSTRAINT spans_tenant_id_schedule_uid_fkey FOREIGN KEY (tenant_id, schedule_uid) REFERENCES everwhen.schedules(tenant_id, uid);

ALTER TABLE ONLY everwhen.streaks
    ADD CONSTRAINT streaks_tenant_id_schedule_uid_fkey FOREIGN KEY (tenant_id, schedule_uid) REFERENCES everwhen.schedules(tenant_id, uid);

ALTER TABLE ONLY everwhen.subscription_kinds
    ADD CONSTRAINT subscription_kinds_tenant_id_subscription_fkey FOREIGN KEY (tenant_id, subscription) REFERENCES everwhen.alert_subscriptions(tenant_id, name) ON DELETE CASCADE;

ALTER TABLE ONLY everwhen.tagged
    ADD CONSTRAINT tagged_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.task_limits
    ADD CONSTRAINT task_limits_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.tasks
    ADD CONSTRAINT tasks_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.tenant_keys
    ADD CONSTRAINT tenant_keys_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.tenant_limits
    ADD CONSTRAINT tenant_limits_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.watermarks
    ADD CONSTRAINT watermarks_tenant_id_schedule_uid_fkey FOREIGN KEY (tenant_id, schedule_uid) REFERENCES everwhen.schedules(tenant_id, uid);

ALTER TABLE ONLY everwhen.workflow_keys
    ADD CONSTRAINT workflow_keys_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE ONLY everwhen.workflow_nodes
    ADD CONSTRAINT workflow_nodes_tenant_id_run_id_fkey FOREIGN KEY (tenant_id, run_id) REFERENCES everwhen.workflow_runs(tenant_id, run_id);

ALTER TABLE ONLY everwhen.workflow_runs
    ADD CONSTRAINT workflow_runs_tenant_id_workflow_version_fkey FOREIGN KEY (tenant_id, workflow, version) REFERENCES everwhen.workflow_versions(tenant_id, workflow, version);

ALTER TABLE ONLY everwhen.workflow_versions
    ADD CONSTRAINT workflow_versions_tenant_id_workflow_fkey FOREIGN KEY (tenant_id, workflow) REFERENCES everwhen.workflows(tenant_id, name);

ALTER TABLE ONLY everwhen.workflows
    ADD CONSTRAINT workflows_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES everwhen.tenants(id);

ALTER TABLE everwhen.admitted ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.alert_channels ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.alert_deliveries ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.alert_listeners ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.alert_outlets ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.alert_routes ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.alert_secrets ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.alert_signals ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.alert_subscriptions ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.alert_templates ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.alert_told ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.alert_tries ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.alert_watched ENABLE ROW LEVEL SECURITY;

CREATE POLICY all_tenants ON everwhen.admitted TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.alert_channels TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.alert_deliveries TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.alert_listeners TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.alert_outlets TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.alert_routes TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.alert_secrets TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.alert_signals TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.alert_subscriptions TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.alert_templates TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.alert_told TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.alert_tries TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.alert_watched TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.arrears TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.attempt_logs TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.attempts TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.audit_events TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.audit_heads TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.audit_links TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.audit_unsealed TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.calendar_changes TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.calendar_users TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.calendar_versions TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.calendars TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.dead_letters TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.endpoint_secrets TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.endpoint_states TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.endpoints TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.events TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.finding_events TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.findings TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.gates TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.held TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.key_rates TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.lanes TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.leases TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.line_states TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.log_bytes TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.log_pieces TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.measured TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.members TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.operation_items TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.operations TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.outbox TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.pause_changes TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.pauses TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.payload_objects TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.payload_usage TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.payload_users TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.payloads TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.punctuality TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.queue_shares TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.queues TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.replies TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.request_counts TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.revocations TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.run_counts TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.run_ends TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.runs TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.schedule_revisions TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.schedules TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.service_tasks TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.service_tokens TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.sightings TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.spans TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.streaks TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.subscription_kinds TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.tagged TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.task_limits TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.tasks TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.tenant_keys TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.tenant_limits TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.tenants TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.waiting TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.watermarks TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.workers TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.workflow_keys TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.workflow_nodes TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.workflow_runs TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.workflow_versions TO everwhen_system USING (true) WITH CHECK (true);

CREATE POLICY all_tenants ON everwhen.workflows TO everwhen_system USING (true) WITH CHECK (true);

ALTER TABLE everwhen.arrears ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.attempt_logs ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.attempts ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.audit_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.audit_heads ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.audit_links ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.audit_unsealed ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.calendar_changes ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.calendar_users ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.calendar_versions ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.calendars ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.dead_letters ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.endpoint_secrets ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.endpoint_states ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.endpoints ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.events ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.finding_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.findings ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.gates ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.held ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.key_rates ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.lanes ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.leases ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.line_states ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.log_bytes ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.log_pieces ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.measured ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.members ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.operation_items ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.operations ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.outbox ENABLE ROW LEVEL SECURITY;

CREATE POLICY own_row ON everwhen.tenants FOR SELECT TO everwhen_tenant USING ((id = everwhen.current_tenant()));

CREATE POLICY own_rows ON everwhen.admitted TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.alert_channels TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.alert_deliveries TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.alert_listeners TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.alert_outlets TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.alert_routes TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.alert_secrets TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.alert_signals TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.alert_subscriptions TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.alert_templates TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.alert_told TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.alert_tries TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.alert_watched TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.arrears TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.attempt_logs TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.attempts TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.audit_events TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.audit_heads TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.audit_links TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.audit_unsealed TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.calendar_changes TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.calendar_users TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.calendar_versions TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.calendars TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.dead_letters TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.endpoint_secrets TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.endpoint_states TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.endpoints TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.events TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.finding_events TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.findings TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.gates TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.held TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.key_rates TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.lanes TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.leases TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.line_states TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.log_bytes TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.log_pieces TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.measured TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.members TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.operation_items TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.operations TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.outbox TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.pause_changes TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.pauses TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.payload_objects TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.payload_usage TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.payload_users TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.payloads TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.punctuality TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.queue_shares FOR SELECT TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.queues TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.replies TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.request_counts TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.revocations TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.run_counts TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.run_ends TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.runs TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.schedule_revisions TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.schedules TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.service_tasks TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.service_tokens TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.sightings TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.spans TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.streaks TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.subscription_kinds TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.tagged TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.task_limits TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.tasks TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.tenant_keys TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.tenant_limits TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.waiting TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.watermarks TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.workers TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.workflow_keys TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.workflow_nodes TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.workflow_runs TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.workflow_versions TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

CREATE POLICY own_rows ON everwhen.workflows TO everwhen_tenant USING ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT everwhen.current_tenant() AS current_tenant)));

ALTER TABLE everwhen.pause_changes ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.pauses ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.payload_objects ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.payload_usage ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.payload_users ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.payloads ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.punctuality ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.queue_shares ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.queues ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.replies ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.request_counts ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.revocations ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.run_counts ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.run_ends ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.runs ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.schedule_revisions ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.schedules ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.service_tasks ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.service_tokens ENABLE ROW LEVEL SECURITY;

CREATE POLICY shared_rows ON everwhen.workers FOR SELECT TO everwhen_tenant USING ((tenant_id = '00000000-0000-0000-0000-000000000000'::uuid));

ALTER TABLE everwhen.sightings ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.spans ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.streaks ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.subscription_kinds ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.tagged ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.task_limits ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.tasks ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.tenant_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.tenant_limits ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.tenants ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.waiting ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.watermarks ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.workers ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.workflow_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.workflow_nodes ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.workflow_runs ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.workflow_versions ENABLE ROW LEVEL SECURITY;

ALTER TABLE everwhen.workflows ENABLE ROW LEVEL SECURITY;

GRANT USAGE ON SCHEMA everwhen TO everwhen_tenant;
GRANT USAGE ON SCHEMA everwhen TO everwhen_system;

GRANT ALL ON FUNCTION everwhen.current_tenant() TO everwhen_tenant;
GRANT ALL ON FUNCTION everwhen.current_tenant() TO everwhen_system;

GRANT ALL ON FUNCTION everwhen.ensure_audit_week(instant timestamp with time zone) TO everwhen_tenant;
GRANT ALL ON FUNCTION everwhen.ensure_audit_week(instant timestamp with time zone) TO everwhen_system;

GRANT ALL ON FUNCTION everwhen.ensure_week(instant timestamp with time zone) TO everwhen_tenant;
GRANT ALL ON FUNCTION everwhen.ensure_week(instant timestamp with time zone) TO everwhen_system;

GRANT ALL ON FUNCTION everwhen.first_run_id(instant timestamp with time zone) TO everwhen_tenant;
GRANT ALL ON FUNCTION everwhen.first_run_id(instant timestamp with time zone) TO everwhen_system;

GRANT USAGE ON SEQUENCE everwhen.lease_numbers TO everwhen_tenant;
GRANT USAGE ON SEQUENCE everwhen.lease_numbers TO everwhen_system;

GRANT ALL ON FUNCTION everwhen.new_lease_token() TO everwhen_tenant;
GRANT ALL ON FUNCTION everwhen.new_lease_token() TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.admitted TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.admitted TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.alert_channels TO everwhen_tenant;
GRANT SELECT,UPDATE ON TABLE everwhen.alert_channels TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.alert_deliveries TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.alert_deliveries TO everwhen_system;

GRANT USAGE ON SEQUENCE everwhen.alert_lease_numbers TO everwhen_tenant;
GRANT USAGE ON SEQUENCE everwhen.alert_lease_numbers TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.alert_listeners TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.alert_listeners TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.alert_outlets TO everwhen_tenant;
GRANT SELECT,UPDATE ON TABLE everwhen.alert_outlets TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.alert_routes TO everwhen_tenant;
GRANT SELECT ON TABLE everwhen.alert_routes TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.alert_secrets TO everwhen_tenant;
GRANT SELECT ON TABLE everwhen.alert_secrets TO everwhen_system;

GRANT USAGE ON SEQUENCE everwhen.alert_signal_ids TO everwhen_tenant;
GRANT USAGE ON SEQUENCE everwhen.alert_signal_ids TO everwhen_system;

GRANT INSERT ON TABLE everwhen.alert_signals TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.alert_signals TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.alert_subscriptions TO everwhen_tenant;
GRANT SELECT ON TABLE everwhen.alert_subscriptions TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.alert_templates TO everwhen_tenant;
GRANT SELECT ON TABLE everwhen.alert_templates TO everwhen_system;

GRANT SELECT,INSERT ON TABLE everwhen.alert_told TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.alert_told TO everwhen_system;

GRANT SELECT,INSERT ON TABLE everwhen.alert_tries TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.alert_tries TO everwhen_system;

GRANT SELECT,INSERT ON TABLE everwhen.alert_watched TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.alert_watched TO everwhen_system;

GRANT USAGE ON SEQUENCE everwhen.arrears_ids TO everwhen_tenant;
GRANT USAGE ON SEQUENCE everwhen.arrears_ids TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.arrears TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.arrears TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.attempt_logs TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.attempt_logs TO everwhen_system;

GRANT SELECT,INSERT ON TABLE everwhen.attempts TO everwhen_tenant;
GRANT SELECT,INSERT ON TABLE everwhen.attempts TO everwhen_system;

GRANT SELECT,INSERT ON TABLE everwhen.audit_epochs TO everwhen_system;

GRANT SELECT,INSERT ON TABLE everwhen.audit_events TO everwhen_tenant;
GRANT SELECT,INSERT ON TABLE everwhen.audit_events TO everwhen_system;

GRANT SELECT ON TABLE everwhen.audit_heads TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.audit_heads TO everwhen_system;

GRANT SELECT ON TABLE everwhen.audit_links TO everwhen_tenant;
GRANT SELECT,INSERT ON TABLE everwhen.audit_links TO everwhen_system;

GRANT INSERT ON TABLE everwhen.audit_unsealed TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.audit_unsealed TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.brokers TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.calendar_changes TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.calendar_changes TO everwhen_system;

GRANT SELECT,INSERT,DELETE ON TABLE everwhen.calendar_users TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE ON TABLE everwhen.calendar_users TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.calendar_versions TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.calendar_versions TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.calendars TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.calendars TO everwhen_system;

GRANT SELECT ON TABLE everwhen.cuts TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE ON TABLE everwhen.cuts TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.dead_letters TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.dead_letters TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.endpoint_secrets TO everwhen_tenant;
GRANT SELECT ON TABLE everwhen.endpoint_secrets TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.endpoint_states TO everwhen_tenant;
GRANT SELECT,UPDATE ON TABLE everwhen.endpoint_states TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.endpoints TO everwhen_tenant;
GRANT SELECT ON TABLE everwhen.endpoints TO everwhen_system;

GRANT USAGE ON SEQUENCE everwhen.event_ids TO everwhen_tenant;
GRANT SELECT,USAGE ON SEQUENCE everwhen.event_ids TO everwhen_system;

GRANT SELECT,INSERT ON TABLE everwhen.events TO everwhen_tenant;
GRANT SELECT,INSERT ON TABLE everwhen.events TO everwhen_system;

GRANT USAGE ON SEQUENCE everwhen.finding_event_ids TO everwhen_system;

GRANT SELECT ON TABLE everwhen.finding_events TO everwhen_tenant;
GRANT SELECT,INSERT ON TABLE everwhen.finding_events TO everwhen_system;

GRANT USAGE ON SEQUENCE everwhen.finding_ids TO everwhen_system;

GRANT SELECT ON TABLE everwhen.findings TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.findings TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.gates TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.gates TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.held TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.held TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.key_rates TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.key_rates TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.lanes TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.lanes TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.leases TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.leases TO everwhen_system;

GRANT SELECT ON TABLE everwhen.line_states TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.line_states TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.log_bytes TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.log_bytes TO everwhen_system;

GRANT SELECT,INSERT ON TABLE everwhen.log_pieces TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE ON TABLE everwhen.log_pieces TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.measured TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.measured TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.members TO everwhen_tenant;
GRANT SELECT ON TABLE everwhen.members TO everwhen_system;

GRANT SELECT ON TABLE everwhen.observations TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.observations TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.operation_items TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.operation_items TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.operations TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.operations TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.outbox TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.outbox TO everwhen_system;

GRANT USAGE ON SEQUENCE everwhen.pause_changes_ids TO everwhen_tenant;
GRANT USAGE ON SEQUENCE everwhen.pause_changes_ids TO everwhen_system;

GRANT SELECT,INSERT ON TABLE everwhen.pause_changes TO everwhen_tenant;
GRANT SELECT,INSERT ON TABLE everwhen.pause_changes TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.pauses TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.pauses TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.payload_objects TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.payload_objects TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.payload_usage TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.payload_usage TO everwhen_system;

GRANT SELECT,INSERT,DELETE ON TABLE everwhen.payload_users TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE ON TABLE everwhen.payload_users TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.payloads TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.payloads TO everwhen_system;

GRANT SELECT ON TABLE everwhen.punctuality TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.punctuality TO everwhen_system;

GRANT SELECT ON TABLE everwhen.queue_shares TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.queue_shares TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.queues TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.queues TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.rate_buckets TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.replies TO everwhen_tenant;
GRANT SELECT,DELETE,UPDATE ON TABLE everwhen.replies TO everwhen_system;

GRANT SELECT ON TABLE everwhen.request_counts TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.request_counts TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.revocations TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.revocations TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.run_counts TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.run_counts TO everwhen_system;

GRANT SELECT,INSERT ON TABLE everwhen.run_ends TO everwhen_tenant;
GRANT SELECT,INSERT ON TABLE everwhen.run_ends TO everwhen_system;

GRANT SELECT,INSERT,DELETE ON TABLE everwhen.runs TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE ON TABLE everwhen.runs TO everwhen_system;

GRANT SELECT,INSERT ON TABLE everwhen.schedule_revisions TO everwhen_tenant;
GRANT SELECT,INSERT ON TABLE everwhen.schedule_revisions TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.schedules TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.schedules TO everwhen_system;

GRANT SELECT,UPDATE ON TABLE everwhen.sentinels TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.service_tasks TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.service_tasks TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.service_tokens TO everwhen_tenant;
GRANT SELECT,UPDATE ON TABLE everwhen.service_tokens TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.sessions TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.sightings TO everwhen_system;
GRANT SELECT ON TABLE everwhen.sightings TO everwhen_tenant;

GRANT SELECT,INSERT ON TABLE everwhen.spans TO everwhen_tenant;
GRANT SELECT,INSERT ON TABLE everwhen.spans TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.streaks TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.streaks TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.subscription_kinds TO everwhen_tenant;
GRANT SELECT ON TABLE everwhen.subscription_kinds TO everwhen_system;

GRANT SELECT,INSERT,DELETE ON TABLE everwhen.tagged TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE ON TABLE everwhen.tagged TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.task_limits TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.task_limits TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.tasks TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.tasks TO everwhen_system;

GRANT SELECT,INSERT ON TABLE everwhen.tenant_keys TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.tenant_keys TO everwhen_system;

GRANT SELECT ON TABLE everwhen.tenant_limits TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.tenant_limits TO everwhen_system;

GRANT SELECT ON TABLE everwhen.tenants TO everwhen_tenant;
GRANT SELECT,INSERT ON TABLE everwhen.tenants TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.waiting TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.waiting TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.watermarks TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.watermarks TO everwhen_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.workers TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE everwhen.workers TO everwhen_system;

GRANT SELECT,INSERT,DELETE ON TABLE everwhen.workflow_keys TO everwhen_tenant;
GRANT SELECT,INSERT,DELETE ON TABLE everwhen.workflow_keys TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.workflow_nodes TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.workflow_nodes TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.workflow_runs TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.workflow_runs TO everwhen_system;

GRANT SELECT,INSERT ON TABLE everwhen.workflow_versions TO everwhen_tenant;
GRANT SELECT,INSERT ON TABLE everwhen.workflow_versions TO everwhen_system;

GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.workflows TO everwhen_tenant;
GRANT SELECT,INSERT,UPDATE ON TABLE everwhen.workflows TO everwhen_system;
