-- Since when a run is parked, for whoever asks why it waits.
alter table everwhen.waiting add column parked_at timestamptz;
