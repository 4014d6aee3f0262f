-- Which notifier began a try: what became of an abandoned one is told by what became of its process.
alter table everwhen.alert_tries add column notifier text check (length(notifier) <= 300);
