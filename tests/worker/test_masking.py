"""A secret is hidden wherever it stands, however the stream is cut, and everything else comes out as it went in."""

from hypothesis import example, given
from hypothesis import strategies as st

from everwhen.worker.masking import STARS, Masker

SECRETS = [b"swordfish", b"sword", b"aaaa", b"aab!"]


def naive(data: bytes) -> bytes:
    """Left to right, the longest secret that begins at a place."""
    out, at = b"", 0
    while at < len(data):
        found = next((each for each in sorted(SECRETS, key=len, reverse=True) if data.startswith(each, at)), None)
        out += STARS if found else data[at : at + 1]
        at += len(found or b"x")
    return out


@given(
    st.lists(st.sampled_from([*SECRETS, b"s", b"swordf", b"a", b"!", b"aa", b"fish", b"\n", b"\xff"]), max_size=12),
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
)
@example([b"swordf", b"swordfish"], [1])
@example([b"sword", b"fis"], [5])
def test_cut_anywhere_it_is_masked_as_in_one_piece(parts, sizes):
    data, masker, out, at = b"".join(parts), Masker(SECRETS), b"", 0
    for index in range(len(data)):
        if at >= len(data):
            break
        size = sizes[index % len(sizes)]
        out += masker.mask(data[at : at + size])
        at += size
    out += masker.rest()

    assert out == naive(data)


def test_without_secrets_and_with_ones_too_short_nothing_is_held_back():
    for secrets in ([], [b"abc"], [b""]):
        assert Masker(secrets).mask(b"abcab") == b"abcab"
