-- A week of partitions is 168 hours. Seven *days* are days of the session's zone, one hour more or less where its clocks
-- change, and the next week's partition would overlap or leave a gap.
create or replace function everwhen.ensure_week(instant timestamptz) returns boolean
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
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
