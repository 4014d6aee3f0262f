"""A bucket of a real S3 server: payloads and anchors lie in it as in a folder."""

import json

import pytest

from everwhen.audit.places import Shelf
from everwhen.clock import new_id, process_now
from everwhen.payloads.depot import Depot
from everwhen.payloads.service import Payloads
from tests.payloads import s3
from tests.payloads.conformance import (  # noqa: F401  # each is a test of this store, too
    test_an_upload_that_breaks_off_leaves_nothing,
    test_uploads_of_the_same_bytes_at_once_make_one_object,
    test_what_is_put_in_comes_back_and_is_removed,
)
from tests.payloads.conftest import LIMITS, tenant  # noqa: F401  # a fixture

pytestmark = pytest.mark.system


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


@pytest.fixture
def environment(port, monkeypatch):
    for name, value in {
        "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": s3.KEY,
        "AWS_SECRET_ACCESS_KEY": s3.SECRET,
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("environment")
async def test_the_address_of_a_bucket_and_what_is_in_the_environment_are_enough():
    depot, key = Depot.at(f"s3://{s3.BUCKET}/by-url"), (new_id(process_now()), new_id(process_now()))

    await depot.put(*key, 0, b"x")

    assert [chunk async for chunk in depot.read(*key, 1)] == [b"x"]
    assert await depot.remove(*key) == 1


@pytest.mark.usefixtures("environment")
async def test_anchors_are_noted_in_a_bucket_and_those_of_the_last_days_are_found():
    shelf = Shelf.at(f"s3://{s3.BUCKET}/{new_id(process_now()).hex}")
    for day in ("2025/12/30", "2025/12/31", "2026/01/01"):
        await shelf.note(f"{day}/one.ndjson", json.dumps(day).encode())

    assert [content async for _, content in shelf.read()] == [b'"2026/01/01"', b'"2025/12/31"']
    assert len([name async for name, _ in shelf.read(all_days=True)]) == 3
