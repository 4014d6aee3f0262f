-- Whose rows a statement may see is asked once a statement, not once for each row that it looks at or writes: reading the
-- setting and turning it into a uuid was every tenth microsecond of a claim. In parentheses with `select` it is a plan of
-- its own, whose answer is kept; the plan that is made is the same for every tenant, too.
do $$
declare
  name text;
begin
  for name in select tablename from pg_policies where schemaname = 'everwhen' and policyname = 'own_rows' loop
    execute format('alter policy own_rows on everwhen.%I using (tenant_id = (select everwhen.current_tenant()))
                    with check (tenant_id = (select everwhen.current_tenant()))', name);
  end loop;
end $$;
