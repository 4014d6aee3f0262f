-- Limits of a run over all its attempts, and of a worker's silence. The retry policy itself is JSON and needs no column.
alter table everwhen.tasks
  add column total_deadline_seconds double precision check (total_deadline_seconds > 0),
  add column heartbeat_timeout_seconds double precision check (heartbeat_timeout_seconds >= 1);

-- The lease is never longer than the task's heartbeat time-out, and carries it, so that a renewal reads nothing else.
-- started_at: when the worker said that the function began; null until then, and for ever where it never did.
alter table everwhen.leases
  add column heartbeat_seconds double precision,
  add column started_at timestamptz;

-- Equal for errors that are alike: core/fingerprints.py.
alter table everwhen.attempts add column fingerprint text;
