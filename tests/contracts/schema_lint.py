"""What the catalogue may not hold if tenants are to stay apart. Each statement, run as superuser, returns offenders."""

LINTS = {
    "a tenant table or partition without ENABLE and FORCE ROW LEVEL SECURITY": """
        select c.oid::regclass::text from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
        where c.relnamespace = 'everwhen'::regnamespace and c.relkind in ('r', 'p')
          and not (c.relrowsecurity and c.relforcerowsecurity)""",
    "a tenant table without any policy": """
        select c.oid::regclass::text from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
        where c.relnamespace = 'everwhen'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
          and not exists (select from pg_policy p where p.polrelid = c.oid)""",
    "a policy that asks for the tenant once for each row": """
        select polrelid::regclass::text from pg_policy p
        join pg_class c on c.oid = p.polrelid and c.relnamespace = 'everwhen'::regnamespace
        cross join lateral (values (pg_get_expr(polqual, polrelid)), (pg_get_expr(polwithcheck, polrelid))) x (text)
        where polname = 'own_rows' and x.text !~* 'select everwhen.current_tenant'""",
    "a login role that is too strong": r"""
        select rolname from pg_roles where rolname like 'everwhen\_%' and rolcanlogin
          and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication)""",
    "a group role that is too strong": r"""
        select rolname from pg_roles where rolname in ('everwhen_tenant', 'everwhen_system')
          and (rolcanlogin or rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication)""",
    "a login or group role that owns something": r"""
        select oid::regclass::text from pg_class where relowner in (
          select oid from pg_roles where rolname like 'everwhen\_%'
            and (rolcanlogin or rolname in ('everwhen_tenant', 'everwhen_system')))""",
    "a view that runs as its owner": """
        select oid::regclass::text from pg_class where relnamespace = 'everwhen'::regnamespace and relkind = 'v'
          and not coalesce('security_invoker=true' = any (reloptions), false)""",
    "a materialised view": """
        select oid::regclass::text from pg_class where relnamespace = 'everwhen'::regnamespace and relkind = 'm'""",
    "a definer function without a pinned search_path": """
        select p.oid::regprocedure::text from pg_proc p where pronamespace = 'everwhen'::regnamespace and prosecdef
          and not exists (select from unnest(proconfig) x where x like 'search_path=%')""",
    "a unique index without the tenant": """
        select indexrelid::regclass::text from pg_index i
        join pg_class c on c.oid = i.indrelid
        join pg_attribute a on a.attrelid = i.indrelid and a.attname = 'tenant_id' and not a.attisdropped
        where c.relnamespace = 'everwhen'::regnamespace and indisunique and not (a.attnum = any (i.indkey::int2[]))""",
    "a foreign key between tenant tables without the tenant": """
        select k.conname::text from pg_constraint k
        join pg_attribute a on a.attrelid = k.conrelid and a.attname = 'tenant_id' and not a.attisdropped
        join pg_attribute f on f.attrelid = k.confrelid and f.attname = 'tenant_id' and not f.attisdropped
        where k.connamespace = 'everwhen'::regnamespace and k.contype = 'f'
          and not (a.attnum = any (k.conkey) and f.attnum = any (k.confkey))""",
    "a dangerous grant to an application role": """
        select c.oid::regclass::text from pg_class c, aclexplode(c.relacl) g
        where c.relnamespace = 'everwhen'::regnamespace and g.privilege_type in ('TRUNCATE', 'TRIGGER', 'REFERENCES')
          and g.grantee <> c.relowner""",
    "a right to create in a schema or a database": r"""
        select r.rolname || ' in ' || n.nspname from pg_roles r, pg_namespace n
        where r.rolname like 'everwhen\_%' and (r.rolcanlogin or r.rolname in ('everwhen_tenant', 'everwhen_system'))
          and n.nspname in ('everwhen', 'public') and has_schema_privilege(r.oid, n.oid, 'CREATE')
        union all
        select r.rolname || ' in the database' from pg_roles r
        where r.rolname like 'everwhen\_%' and (r.rolcanlogin or r.rolname in ('everwhen_tenant', 'everwhen_system'))
          and has_database_privilege(r.oid, current_database(), 'CREATE')""",
}

_TABLE = "create table everwhen.seeded (tenant_id uuid, id int);"
_UNIQUE = f"{_TABLE} create unique index on everwhen.seeded (id);"
_SECURED = f"{_TABLE} alter table everwhen.seeded enable row level security, force row level security;"

# One violation of each, made inside a transaction that is rolled back, and the offender that must be named.
SEEDS = {
    "a tenant table or partition without ENABLE and FORCE ROW LEVEL SECURITY": (
        f"{_TABLE} alter table everwhen.seeded enable row level security",
        "everwhen.seeded",
    ),
    "a tenant table without any policy": (_SECURED, "everwhen.seeded"),
    "a policy that asks for the tenant once for each row": (
        f"{_SECURED} create policy own_rows on everwhen.seeded using (tenant_id = everwhen.current_tenant())",
        "everwhen.seeded",
    ),
    "a login role that is too strong": ("create role everwhen_seeded login bypassrls", "everwhen_seeded"),
    "a group role that is too strong": ("alter role everwhen_system bypassrls", "everwhen_system"),
    "a login or group role that owns something": (
        f"{_TABLE} create role everwhen_seeded login; alter table everwhen.seeded owner to everwhen_seeded",
        "everwhen.seeded",
    ),
    "a view that runs as its owner": ("create view everwhen.seeded as select 1 as one", "everwhen.seeded"),
    "a materialised view": ("create materialized view everwhen.seeded as select 1 as one", "everwhen.seeded"),
    "a definer function without a pinned search_path": (
        "create function everwhen.seeded() returns int language sql security definer return 1",
        "everwhen.seeded()",
    ),
    "a unique index without the tenant": (
        f"{_TABLE} create unique index seeded_id on everwhen.seeded (id)",
        "everwhen.seeded_id",
    ),
    "a foreign key between tenant tables without the tenant": (
        f"{_UNIQUE} create table everwhen.child (tenant_id uuid, id int references everwhen.seeded (id))",
        "child_id_fkey",
    ),
    "a dangerous grant to an application role": (
        f"{_TABLE} grant truncate on everwhen.seeded to everwhen_system",
        "everwhen.seeded",
    ),
    "a right to create in a schema or a database": (
        "grant create on schema everwhen to everwhen_tenant",
        "everwhen_tenant in everwhen",
    ),
}
