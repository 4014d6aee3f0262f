"""What is fetched of an issuer, from a real server: a small, plain 200, and nothing else whatever the server does."""

import asyncio
import contextlib

import httpx2
import pytest

from everwhen.http import keys
from everwhen.http.keys import MOST_BYTES, FetchFailed, fetch_document

BODY = b'{"keys": []}'


@pytest.fixture
async def issuer():
    """A server that answers each request with what it was told to, and remembers what it was asked."""
    said, asked = {"": b""}, []

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head)
        with contextlib.suppress(ConnectionError):
            writer.write(said[""])
            await writer.drain()
            while said[""].endswith(b"...") and not reader.at_eof():  # for ever, or until nobody listens
                writer.write(b"x" * 65_536)
                await writer.drain()
            if said[""] == b"":
                await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield said, asked, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"


def answer(status, *headers, body=BODY, length=True):
    lines = [f"HTTP/1.1 {status}", *headers, *([f"Content-Length: {len(body)}"] if length else []), "Connection: close"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def test_a_plain_answer_is_returned_and_asked_for_without_compression(issuer):
    said, asked, url = issuer
    said[""] = answer("200 OK", "Content-Type: application/json")

    assert await fetch_document(url) == BODY
    assert b"accept-encoding: identity" in asked[0].lower()
    assert b"authorization" not in asked[0].lower()


async def test_as_much_as_may_be_is_returned_and_a_byte_more_is_refused(issuer):
    said, _, url = issuer
    said[""] = answer("200 OK", body=b"x" * MOST_BYTES)
    assert len(await fetch_document(url)) == MOST_BYTES

    said[""] = answer("200 OK", body=b"x" * (MOST_BYTES + 1))
    with pytest.raises(FetchFailed, match="more than"):
        await fetch_document(url)


@pytest.mark.parametrize(
    ("said_there", "why"),
    [
        (answer("302 Found", "Location: http://169.254.169.254/latest/meta-data"), "answered 302"),
        (answer("301 Moved Permanently", "Location: /other"), "answered 301"),
        (answer("404 Not Found"), "answered 404"),
        (answer("500 Oops"), "answered 500"),
        (answer("204 No Content", body=b""), "answered 204"),
        (answer("200 OK", "Content-Encoding: gzip", body=b"\x1f\x8b\x08\x00"), "compressed"),
        (answer("200 OK", body=b"...", length=False), "more than"),
    ],
    ids=["redirect away", "redirect", "missing", "broken", "empty", "compressed", "endless"],
)
async def test_whatever_else_is_answered_is_refused_and_nobody_else_is_asked(issuer, said_there, why):
    said, asked, url = issuer
    said[""] = said_there

    with pytest.raises(FetchFailed, match=why):
        await fetch_document(url)

    assert len(asked) == 1


async def test_a_server_that_says_nothing_is_given_up(issuer, monkeypatch):
    said, _, url = issuer
    said[""] = b""
    monkeypatch.setattr(keys, "FETCH_SECONDS", 0.2)

    with pytest.raises(httpx2.HTTPError):
        await fetch_document(url)


async def test_a_proxy_of_the_environment_is_not_used(issuer, monkeypatch):
    said, _, url = issuer
    said[""] = answer("200 OK")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert await fetch_document(url) == BODY
