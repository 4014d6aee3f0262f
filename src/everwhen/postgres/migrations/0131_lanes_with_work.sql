-- everwhen: no-transaction
-- Which tenants have anything waiting at a queue, and since when: a claim at a queue that tenants share steps from one to
-- the next along this index, so that those who have nothing there cost it nothing. Parked runs are not in it. Only a
-- statement that repeats the predicate can take it, so that no plan made in an empty hour looks rows up by it.
create index concurrently if not exists waiting_lanes on everwhen.waiting (queue, tenant_id, available_at)
  where priority >= 0;
