"""What a depot promises of whatever store it is on: `test_depot.py` and `tests/system/test_payloads_in_s3.py` run it.

Each module has a fixture `bucket`: a store in which nothing lies.
"""

import asyncio
import os

import obstore
import pytest

from everwhen.payloads.porter import Porter
from tests.payloads.scene import BY, content_of, put, stream


def objects(bucket) -> int:
    return sum(len(batch) for batch in obstore.list(bucket))


async def sweep(payloads):
    async with payloads.database.system() as conn:
        now = conn.now
    await Porter(database=payloads.database, depot=payloads.depot).tick(now)


async def test_what_is_put_in_comes_back_and_is_removed(in_bucket, bucket, tenant):
    content = os.urandom(9_500)

    payload = await put(in_bucket, tenant, [content[:1], content[1:]])

    assert await content_of(in_bucket, tenant, payload) == content
    assert objects(bucket) == payload.pieces == 10
    await in_bucket.delete(tenant.id, payload.digest)
    await sweep(in_bucket)
    assert objects(bucket) == 0


async def test_an_upload_that_breaks_off_leaves_nothing(in_bucket, bucket, tenant):
    async def broken():
        yield b"x" * 2_500
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await in_bucket.upload(tenant.id, broken(), described=BY)
    assert objects(bucket) == 2
    await sweep(in_bucket)

    assert objects(bucket) == 0


async def test_uploads_of_the_same_bytes_at_once_make_one_object(in_bucket, bucket, tenant):
    made = await asyncio.gather(*(in_bucket.upload(tenant.id, stream(b"same"), described=BY) for _ in range(4)))
    await sweep(in_bucket)

    assert sum(is_new for _, is_new in made) == objects(bucket) == 1
