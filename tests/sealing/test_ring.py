"""What is sealed opens for its tenant, name and version only, and shows itself nowhere."""

import base64
import traceback
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.errors import ConfigurationError
from everwhen.sealing.ring import (
    KeyRing,
    SealBroken,
    TenantKey,
    UnknownSealingKey,
    new_entry,
    new_tenant_key,
    read_ring,
    unwrap,
    wrap,
)

A, B = UUID(int=1), UUID(int=2)
SECRET = "whsec_canary-7Qx"
ENTRY = f"a:{base64.b64encode(bytes(32)).decode()}"


@settings(max_examples=30)
@given(text=st.text(max_size=200), name=st.text(max_size=40), version=st.integers(1, 10**6))
def test_whatever_is_sealed_opens_again(text, name, version):
    key = TenantKey(A, bytes(32))

    assert key.open(key.seal(text, name=name, version=version), name=name, version=version) == text


def test_a_lone_surrogate_does_not_spill_the_secret_in_an_error():
    key = new_tenant_key(A)

    assert key.open(key.seal("x\ud800y", name="n"), name="n") == "x\ud800y"


def test_it_opens_for_nobody_else():
    key = new_tenant_key(A)
    sealed = key.seal(SECRET, name="password", version=2)
    for other, name, version in (
        (key, "password", 1),
        (key, "passwor", 2),
        (TenantKey(B, key.key), "password", 2),
        (new_tenant_key(A), "password", 2),
    ):
        with pytest.raises(SealBroken):
            other.open(sealed, name=name, version=version)


def test_every_flipped_bit_and_every_cut_is_found():
    key = new_tenant_key(A)
    sealed = key.seal("s", name="n")
    for at in range(len(sealed) * 8):
        altered = bytearray(sealed)
        altered[at // 8] ^= 1 << at % 8
        with pytest.raises(SealBroken):
            key.open(bytes(altered), name="n")
    for length in range(len(sealed)):
        with pytest.raises(SealBroken):
            key.open(sealed[:length], name="n")


def test_the_same_secret_is_sealed_differently_each_time():
    key = new_tenant_key(A)

    assert len({key.seal("s", name="n") for _ in range(1000)}) == 1000


def test_the_first_key_wraps_and_every_key_opens():
    old, new = read_ring(new_entry("old")), read_ring(new_entry("new"))
    key = new_tenant_key(A)
    wrapped = wrap(old, key)
    both = KeyRing({**new.keys, **old.keys})

    assert both.first == "new"
    assert unwrap(both, tenant_id=A, wrapped=wrapped, wrapped_by="old").key == key.key
    with pytest.raises(UnknownSealingKey, match=r"old is not in EVERWHEN_SEALING_KEYS, which has new"):
        unwrap(new, tenant_id=A, wrapped=wrapped, wrapped_by="old")
    impostor = KeyRing({"old": new.keys["new"]})
    for ring, tenant_id, by in ((impostor, A, "old"), (both, B, "old"), (both, A, "new")):
        with pytest.raises(SealBroken):
            unwrap(ring, tenant_id=tenant_id, wrapped=wrapped, wrapped_by=by)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "entry 1 is not name:key"),
        ("canarycanary", "entry 1 is not name:key"),
        ("A:x", "entry 1 is not name:key"),
        ("a:canary!", "the key a is not 32 bytes"),
        (f"a:{base64.b64encode(bytes(31)).decode()}", "the key a is not 32 bytes"),
        (f"{ENTRY},{ENTRY}", "the name a stands there twice"),
        (f"{ENTRY},b", "entry 2 is not name:key"),
    ],
)
def test_a_ring_that_cannot_be_is_refused_without_being_shown(text, what):
    with pytest.raises(ConfigurationError, match=what) as refused:
        read_ring(text)

    assert "canary" not in "".join(traceback.format_exception(refused.value))


def test_a_ring_is_read_from_commas_and_lines():
    assert list(read_ring(f" {new_entry('b')}\n{new_entry('a')},{new_entry('c')}\n").keys) == ["b", "a", "c"]


def test_nothing_shows_a_key_or_a_secret():
    ring, key = read_ring(new_entry("a")), new_tenant_key(A)
    sealed = key.seal(SECRET, name="n")
    shown = f"{ring!r} {ring} {key!r} {key} {sealed!r}"
    try:
        TenantKey(B, key.key).open(sealed, name="n")
    except SealBroken as error:
        shown += "".join(traceback.format_exception(error)) + repr(error.__dict__)
    for hidden in (key.key, ring.keys["a"], SECRET.encode()):
        for form in (hidden, base64.b64encode(hidden), hidden.hex().encode(), repr(hidden).encode()):
            assert form.decode("latin-1") not in shown
