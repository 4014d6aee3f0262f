-- What has a tag, by name. The tags of one thing stand in its own row, too.

-- name: put_tags
-- These are its tags now. One that is there already is left alone.
with gone as (
  delete from everwhen.tagged
  where tenant_id = %(tenant_id)s and kind = %(kind)s and tag = any(%(before)s::text[]) and tag <> all(%(tags)s::text[])
    and name = %(name)s
)
insert into everwhen.tagged (tenant_id, kind, tag, name)
select %(tenant_id)s, %(kind)s, tag, %(name)s from unnest(%(tags)s::text[]) t (tag)
on conflict do nothing;
