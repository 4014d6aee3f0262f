-- The head of a line is where runs leave it, so that is where dead entries of its indexes gather: each claim walks over
-- them until a vacuum has passed. By the defaults that is when a fifth of the line is dead: beside a million waiting runs
-- 200,000 of them, thousands of pages for a claim of one. So the size of the table no longer counts, only what is dead.
-- Both tables are narrow; a vacuum at each turn of autovacuum is cheap.
alter table everwhen.waiting set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 2000);
alter table everwhen.leases set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
