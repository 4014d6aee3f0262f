"""The depot in a bucket of a real S3 server: the same promises as in a folder."""

import asyncio
import os

import obstore
import pytest

from everwhen.clock import new_id, process_now
from everwhen.errors import ConfigurationError, Unavailable
from everwhen.payloads.depot import Depot
from everwhen.payloads.porter import Porter
from everwhen.payloads.service import Payloads
from tests.payloads import s3
from tests.payloads.conftest import LIMITS
from tests.payloads.scene import BY, content_of, put, stream


@pytest.fixture(scope="session")
def port(tmp_path_factory):
    with s3.running(tmp_path_factory.mktemp("s3")) as port:
        yield port


@pytest.fixture
def bucket(port):
    return s3.store_at(port, prefix=new_id(process_now()).hex)


@pytest.fixture
def in_bucket(database, bucket):
    return Payloads.on(database, Depot(bucket), LIMITS)


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


async def test_a_bucket_that_is_away_is_said_to_be(database, tenant):
    payloads = Payloads.on(database, Depot(s3.store_at(1)), LIMITS)

    with pytest.raises(Unavailable, match="payload store"):
        await put(payloads, tenant, b"x")


async def test_the_address_of_a_bucket_and_what_is_in_the_environment_are_enough(port, monkeypatch):
    for name, value in {
        "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": s3.KEY,
        "AWS_SECRET_ACCESS_KEY": s3.SECRET,
    }.items():
        monkeypatch.setenv(name, value)
    depot, key = Depot.at(f"s3://{s3.BUCKET}/by-url"), (new_id(process_now()), new_id(process_now()))

    await depot.put(*key, 0, b"x")

    assert [chunk async for chunk in depot.read(*key, 1)] == [b"x"]
    assert await depot.remove(*key) == 1


@pytest.mark.parametrize("location", ["ftp://nowhere/x", "s3://", "s3:// /x"])
def test_an_address_that_makes_no_sense_is_refused_in_one_line(location):
    with pytest.raises(ConfigurationError) as raised:
        Depot.at(location)
    assert location in str(raised.value)
    assert "\n" not in str(raised.value)
