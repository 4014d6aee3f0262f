"""The depot in a store in memory, and what is said of one that is away or has no sensible address."""

import pytest
from obstore.store import MemoryStore

from everwhen.errors import ConfigurationError, Unavailable
from everwhen.payloads.depot import Depot
from everwhen.payloads.service import Payloads
from tests.payloads import s3
from tests.payloads.conformance import (  # noqa: F401  # each is a test of this store, too
    test_an_upload_that_breaks_off_leaves_nothing,
    test_uploads_of_the_same_bytes_at_once_make_one_object,
    test_what_is_put_in_comes_back_and_is_removed,
)
from tests.payloads.conftest import LIMITS
from tests.payloads.scene import put


@pytest.fixture
def bucket():
    return MemoryStore()


@pytest.fixture
def in_bucket(database, bucket):
    return Payloads.on(database, Depot(bucket), LIMITS)


async def test_a_bucket_that_is_away_is_said_to_be(database, tenant):
    payloads = Payloads.on(database, Depot(s3.store_at(1)), LIMITS)

    with pytest.raises(Unavailable, match="payload store"):
        await put(payloads, tenant, b"x")


@pytest.mark.parametrize("location", ["ftp://nowhere/x", "s3://", "s3:// /x"])
def test_an_address_that_makes_no_sense_is_refused_in_one_line(location):
    with pytest.raises(ConfigurationError) as raised:
        Depot.at(location)
    assert location in str(raised.value)
    assert "\n" not in str(raised.value)
