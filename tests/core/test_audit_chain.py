import hashlib
import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.audit_chain import canonical, genesis, link

TENANT, OTHER = UUID(int=1), UUID(int=2)
EPOCH = UUID(int=3)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_what_was_spelt_once_is_spelt_so_again(value):
    text = canonical(value)

    assert canonical(json.loads(text)) == text
    assert text.isascii()


def test_a_link_is_what_the_page_says():
    record = '{"actor":"ada"}'
    first = genesis(TENANT)
    preimage = first + (1).to_bytes(8, "big") + EPOCH.bytes + (15).to_bytes(4, "big") + record.encode()

    assert first == hashlib.sha256(b"everwhen audit" + TENANT.bytes).digest()
    assert link(first, seq=1, epoch=EPOCH, record=record) == hashlib.sha256(preimage).digest()


@pytest.mark.parametrize(
    "other",
    [
        {"previous": genesis(OTHER)},
        {"seq": 2},
        {"epoch": UUID(int=4)},
        {"record": '{"actor":"eve"}'},
        {"record": '{"actor":"ada"} '},
    ],
)
def test_nothing_that_goes_into_a_link_can_be_another(other):
    said = {"previous": genesis(TENANT), "seq": 1, "epoch": EPOCH, "record": '{"actor":"ada"}'}

    assert link(**said) != link(**said | other)


def test_what_is_no_json_is_not_spelt():
    with pytest.raises(ValueError, match="JSON"):
        canonical(float("nan"))
