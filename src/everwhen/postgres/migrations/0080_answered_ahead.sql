-- Instants that have an answer although nothing has been decided up to there: beyond a schedule's watermark, and in a
-- stretch that is left to catch up on. A calendar moved a run to before its instant, or somebody cancelled one that was
-- planned ahead, and then the schedule changed. Whoever decides there passes over them.
alter table everwhen.watermarks add column answered timestamptz[]; -- ascending; null: there are none
alter table everwhen.arrears add column answered timestamptz[]; -- the same
