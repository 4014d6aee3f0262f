"""The guarded client against real servers and hostile names: every end is one of three, and bounded."""

import asyncio
import socket
import ssl
from itertools import cycle
from typing import Any
from uuid import UUID

import pytest

from everwhen.egress.client import BODY_BYTES, Answered, Away, Egress, RefusedByPolicy
from everwhen.egress.dialing import Checked, Unreachable, assert_peer, dial
from everwhen.egress.policy import EgressPolicy, tls_context
from everwhen.egress.targets import TargetRefused
from everwhen.egress.turns import Resolver
from everwhen.errors import ConfigurationError
from tests.alerts.certificates import authority
from tests.alerts.servers import BOMB, CUT, DRIP, FLOOD, HANG, NONSENSE, STALL, HttpsReceiver, Reply
from tests.egress.guarded import ANY_PORT, LOOPBACK, Names, egress
from tests.egress.test_addresses import DANGEROUS

TENANT, OTHER = UUID(int=1), UUID(int=2)
PUBLIC = "93.184.216.34"


@pytest.fixture
def receiver():
    with HttpsReceiver() as running:
        yield running


@pytest.fixture
def canary():
    """A listener on loopback that nobody may ever reach."""
    with HttpsReceiver() as running:
        yield running


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # another thread makes it true
            await asyncio.sleep(0.01)


async def post(client: Egress, url: str, *, tenant_id=TENANT, headers=None, content=b"{}") -> Any:
    return await client.post(url, tenant_id=tenant_id, headers=headers or {}, content=content)


async def test_a_request_goes_to_the_checked_address_under_the_name(receiver):
    names = Names()
    answer = await post(
        egress(names=names), f"https://receiver.test:{receiver.port}/a?b=c", headers={"X-Own": "1", "host": "evil"}
    )

    assert answer == Answered(status=200, body=b"ok")
    assert names.asked == ["receiver.test"]  # once, and the certificate was the name's
    [request] = receiver.requests
    assert request.path == "/a?b=c"
    assert request.headers["host"] == f"receiver.test:{receiver.port}"
    assert request.headers["x-own"] == "1"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["connection"] == "close"


async def test_the_status_and_when_to_come_again_are_told(receiver):
    receiver.script.append(Reply(status=429, headers={"Retry-After": "7"}, body=b""))

    assert await post(egress(), receiver.url) == Answered(status=429, retry_after="7")


async def test_a_redirect_is_an_answer_and_is_not_followed(receiver, canary):
    for status in (301, 302, 303, 307, 308):
        receiver.script.append(Reply(status=status, headers={"Location": canary.url}))
        answer = await post(egress(), receiver.url)
        assert isinstance(answer, Answered)
        assert answer.status == status
    assert canary.connections == 0


@pytest.mark.parametrize("what", [HANG, DRIP])
async def test_who_takes_for_ever_is_away_within_the_time(receiver, what):
    receiver.script.append(what)

    assert await post(egress(seconds=0.5), receiver.url) == Away("no answer within 0.5 s")


@pytest.mark.parametrize(("what", "why"), [(CUT, "cut"), (NONSENSE, "HTTP")])
async def test_who_answers_nothing_sensible_is_away(receiver, what, why):
    receiver.script.append(what)
    answer = await post(egress(), receiver.url)

    assert isinstance(answer, Away)
    assert why in answer.why or "HTTP" in answer.why


async def test_a_body_without_an_end_is_read_up_to_a_size(receiver):
    receiver.script.append(FLOOD)
    answer = await post(egress(), receiver.url)

    assert isinstance(answer, Answered)
    assert len(answer.body) == BODY_BYTES


async def test_nothing_is_unpacked(receiver):
    receiver.script.append(BOMB)
    answer = await post(egress(), receiver.url)

    assert isinstance(answer, Answered)
    assert answer.status == 200
    assert answer.body.startswith(b"\x1f\x8b")
    assert len(answer.body) < 20_000


async def test_the_status_counts_when_the_body_hangs(receiver):
    receiver.script.append(STALL)
    answer = await post(egress(seconds=1.0), receiver.url)

    assert isinstance(answer, Answered)
    assert answer.status == 200


async def test_down_is_away_and_up_again_is_an_answer(receiver):
    receiver.down()
    answer = await post(egress(), receiver.url)
    assert answer == Away("localhost does not take the connection: ECONNREFUSED")

    receiver.up()
    assert isinstance(await post(egress(), receiver.url), Answered)


async def test_a_certificate_of_another_name_or_time_or_authority_is_not_accepted(receiver):
    client = egress()
    assert "certificate" in (await post(client, f"https://other.test:{receiver.port}/")).why
    assert "certificate" in (await post(egress(ca_file=None), receiver.url)).why
    receiver.down()
    receiver.use(authority().server_context(expired=True))
    receiver.up()
    assert "expired" in (await post(client, receiver.url)).why
    assert receiver.requests == []


async def test_plain_http_only_where_it_is_allowed():
    with HttpsReceiver(plain=True) as plain:
        assert isinstance(await post(egress(plain_http=True), plain.url), Answered)
        assert isinstance(await post(egress(), plain.url), RefusedByPolicy)
        tls = plain.url.replace("http:", "https:")
        assert isinstance(await post(egress(seconds=1), tls), Away)
        assert len(plain.requests) == 1


@pytest.mark.parametrize("address", DANGEROUS)
async def test_a_name_that_leads_to_a_forbidden_address_is_refused(address):
    client = egress(names=Names({"evil.test": [address]}), allowed=())
    answer = await post(client, "https://evil.test/")

    assert isinstance(answer, RefusedByPolicy)
    assert address not in answer.why  # which addresses a name has inside is not told


async def test_one_forbidden_address_refuses_the_name(canary):
    for addresses in ([PUBLIC, "127.0.0.1"], ["127.0.0.1", PUBLIC], ["2606:4700::1", "::ffff:127.0.0.1"]):
        client = egress(names=Names({"evil.test": addresses}), allowed=())
        assert isinstance(await post(client, f"https://evil.test:{canary.port}/"), RefusedByPolicy)
    assert canary.connections == 0


async def test_a_name_is_resolved_once_so_flipping_it_reaches_nothing(canary, monkeypatch):
    """10,000 tries at a name that is public when it is checked and loopback when it is asked again."""
    dialed = []

    async def connect(address, port):
        dialed.append(address)
        raise ConnectionRefusedError(111, "in a test nothing is reached")

    monkeypatch.setattr("everwhen.egress.dialing._connect", connect)
    flips = cycle([[PUBLIC], ["127.0.0.1"]])
    names = Names({"evil.test": lambda: next(flips)})
    client = egress(names=names, allowed=())
    tries = 10_000
    answers = [await post(client, f"https://evil.test:{canary.port}/") for _ in range(tries)]

    assert [type(answer) for answer in answers[:2]] == [Away, RefusedByPolicy]
    assert len(names.asked) == tries
    assert set(dialed) == {PUBLIC}
    assert len(dialed) == tries // 2
    assert canary.connections == 0


async def test_a_connection_that_ended_up_elsewhere_is_cut(canary, monkeypatch):
    async def to_the_canary(address, port):
        connecting = socket.create_connection(("127.0.0.1", canary.port))
        connecting.setblocking(False)
        return connecting

    monkeypatch.setattr("everwhen.egress.dialing._connect", to_the_canary)
    answer = await post(egress(names=Names({"evil.test": [PUBLIC]}), allowed=()), "https://evil.test/")

    assert answer == RefusedByPolicy("the connection went to another address than the one that was checked")
    assert canary.requests == []
    with pytest.raises(TargetRefused):
        assert_peer("127.0.0.1", expected="127.0.0.1", allowed=())
    assert_peer("::ffff:127.0.0.1", expected="127.0.0.1", allowed=LOOPBACK)


async def test_the_next_address_is_tried(receiver):
    connected = await dial(Checked("x", receiver.port, ("127.0.0.2", "127.0.0.1")), allowed=LOOPBACK)
    assert connected.getpeername()[0] == "127.0.0.1"
    connected.close()
    with pytest.raises(Unreachable):
        await dial(Checked("x", receiver.port, ("127.0.0.2",)), allowed=LOOPBACK)


async def test_proxies_of_the_environment_are_not_asked(receiver, canary, monkeypatch):
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{canary.port}")

    assert isinstance(await post(egress(), receiver.url), Answered)
    assert canary.connections == 0


@pytest.mark.parametrize(
    "headers",
    [{"X": "a\r\nY: b"}, {"X\r\nY": "b"}, {"X": "a\nb"}, {"": "x"}, {"X": ""}, {"X": "ü"}, {"X": " a"}],
    ids=str,
)
async def test_a_header_cannot_be_broken_out_of(receiver, headers):
    assert isinstance(await post(egress(), receiver.url, headers=headers), RefusedByPolicy)
    assert receiver.connections == 0


async def test_one_tenant_has_a_few_turns_and_another_tenant_its_own(receiver):
    receiver.ordinary = HANG
    client = egress(per_tenant=2, seconds=20)
    hanging = [asyncio.create_task(post(client, receiver.url)) for _ in range(5)]
    await until(lambda: len(receiver.requests) == 2)
    other = asyncio.create_task(post(client, receiver.url, tenant_id=OTHER))
    await until(lambda: len(receiver.requests) == 3)

    assert len(receiver.requests) == 3  # two of the five, and the other tenant's
    for task in (*hanging, other):
        task.cancel()
    await asyncio.gather(*hanging, other, return_exceptions=True)
    receiver.ordinary = 200
    assert isinstance(await post(client, receiver.url), Answered)  # the turns were given back


async def test_the_system_resolver_tells_every_address_and_gives_its_turn_back():
    resolve = Resolver()
    for _ in range(10):
        assert "127.0.0.1" in await resolve(TENANT, "localhost", 443)
    with pytest.raises((OSError, UnicodeError)):
        await resolve(TENANT, "a..b", 443)


async def test_a_name_without_an_address_is_away():
    async def nobody(tenant_id, host, port):
        raise socket.gaierror(socket.EAI_NONAME, "x")

    async def none(tenant_id, host, port):
        return []

    for resolve in (nobody, none):
        client = Egress(EgressPolicy(), resolve=resolve)
        assert isinstance(await post(client, "https://nowhere.test/"), Away)


async def test_mail_goes_through_the_same_guard(receiver):
    client = egress()
    async with client.mail_connection("mail.test", receiver.port, tenant_id=TENANT) as connected:
        assert connected.getpeername() == ("127.0.0.1", receiver.port)
        connected.close()
    for guarded, host, port in (
        (egress(allowed=()), "mail.test", receiver.port),
        (egress(mail_ports=frozenset({25})), "mail.test", receiver.port),
        (client, "2130706433", receiver.port),
    ):
        with pytest.raises(TargetRefused):
            async with guarded.mail_connection(host, port, tenant_id=TENANT):
                pass


def test_an_authority_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"egress_ca_file: .*nothing\.pem"):
        tls_context(tmp_path / "nothing.pem")
    assert tls_context(authority().file).verify_mode == ssl.CERT_REQUIRED
    assert {443, 8443} == EgressPolicy().ports < ANY_PORT
