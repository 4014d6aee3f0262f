"""The kind `email` beyond what every kind keeps to: TLS, log-in, headers, addresses, codes, the default server."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID

import pytest

from everwhen.alerts.channels.email.configuration import read_address, read_sender
from everwhen.alerts.channels.email.kind import Email
from everwhen.alerts.channels.email.server import MailServer as Server
from everwhen.alerts.channels.email.server import read_server
from everwhen.alerts.channels.protocol import Delivered, Refused, TryLater
from everwhen.alerts.message import Rendered
from everwhen.errors import ConfigurationError, InvalidInput
from tests.alerts.certificates import authority
from tests.alerts.servers import MailServer
from tests.egress.guarded import Names, egress

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DELIVERY = UUID(int=9)
RENDERED = Rendered(subject="nächtlich ✓ is dead", text="Text ✓\n", html="<p>HTML ✓</p>\n")
LINK = "https://everwhen.example.com/v1/alerts/unsubscribe/" + "t" * 300


NO_ADDRESSES = [
    "",
    "x",
    "@",
    "a@",
    "@b.c",
    "a@b",
    "a b@c.d",
    "a@b c.d",
    "a\r\n@b.c",
    "a@b.c\r\nBcc: x@y.z",
    '"a b"@c.d',
    "a@[1.2.3.4]",
    "a@1.2.3.4",
    "a,b@c.d",
    "a@b.c,d@e.f",
    "<a@b.c>",
    "A <a@b.c>",
    ".a@b.c",
    "a..b@c.d",
    "a.@b.c",
    "a;b@c.d",
    "a\x00@b.c",
    "a@b.c\u202e",
    "\u202ea@b.c",
    "a" * 65 + "@b.c",
    "ü" * 33 + "@b.c",
    "a@b..c",
    "a(x)@b.c",
    "a:b@c.d",
    "a\ud800@b.c",
    "a\u2028@b.c",
    "a@①②⑦.0.0.1",
    "a\\@b.c",
    "a@b.c>",
]


@pytest.fixture
def mail():
    with MailServer() as running:
        yield running


def configured(mail, **changes):
    ours = {"host": "mail.test", "port": mail.port, "username": "user", "from": "everwhen@example.com"}
    return {**ours, "to": ["ops@example.org"], **changes}


async def send(configuration, *, kind=None, rendered=RENDERED, secrets=None, recipient=None, link=LINK):
    return await (kind or Email(egress())).send(
        rendered,
        tenant_id=UUID(int=1),
        recipient=recipient or configuration["to"][0],
        unsubscribe_link=link,
        configuration=configuration,
        secrets={"password": "password"} if secrets is None else secrets,
        delivery_id=DELIVERY,
        now=NOW,
    )


async def test_a_mail_has_both_forms_and_the_headers_of_a_machine(mail):
    outcome = await send(configured(mail, from_name="Everwhen, of Acme"))
    [message] = mail.messages

    assert isinstance(outcome, Delivered), outcome
    assert [part.get_content_type() for part in message.walk()] == ["multipart/alternative", "text/plain", "text/html"]
    plain, html = message.iter_parts()
    assert [part.get_content().replace("\r\n", "\n") for part in (plain, html)] == [RENDERED.text, RENDERED.html]
    assert {name: str(message[name]) for name in message if name != "Content-Type"} == {
        "From": '"Everwhen, of Acme" <everwhen@example.com>',
        "To": "ops@example.org",
        "Subject": RENDERED.subject,
        "Date": "Mon, 30 Nov 2026 12:00:00 +0000",
        "Message-ID": f"<{DELIVERY}@example.com>",
        "Auto-Submitted": "auto-generated",
        "X-Auto-Response-Suppress": "All",
        "List-Unsubscribe": f"<{LINK}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "MIME-Version": "1.0",
    }


async def test_a_text_cannot_begin_a_header(mail):
    evil = "x\r\nBcc: evil@example.com\r\n\r\n<b>body</b>\u2028X-Evil: 1"
    await send(configured(mail), rendered=Rendered(subject=evil, text=evil, html=evil), link="https://x/\r\nX-Evil: 1")
    [message] = mail.messages

    assert message["Bcc"] is None
    assert message["X-Evil"] is None
    assert message["List-Unsubscribe"] is None
    assert str(message["Subject"]) == "x Bcc: evil@example.com <b>body</b> X-Evil: 1"
    assert mail.recipients == ["ops@example.org"]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("451 4.7.1 later", TryLater),
        ("421 4.3.2 going down", TryLater),
        ("452 4.2.2 full", TryLater),
        ("550 5.1.1 unknown", Refused),
        ("552 5.3.4 too large", Refused),
        ("554 5.7.1 spam", Refused),
    ],
)
async def test_a_code_of_four_is_for_later_and_one_of_five_is_not(mail, code, outcome):
    mail.script.append(code)
    came = await send(configured(mail))
    assert (type(came), came.response) == (outcome, code)

    recipient = f"{code[:3]}@example.org"
    came = await send(configured(mail, to=[recipient]))
    assert type(came) is outcome
    assert came.response.startswith(code[:3])
    assert came.response.isprintable()


async def test_a_wrong_password_is_refused_without_the_servers_words(mail):
    came = await send(configured(mail), secrets={"password": "wrong"})

    assert came == Refused(response="535 the server refuses the user name or the password")


@pytest.mark.parametrize(
    ("greeting", "outcome"),
    [
        ("421 busy\r\n", TryLater),
        ("554 no service\r\n", Refused),
        ("hello\r\n", TryLater),
        ("220 \xff\r\n", TryLater),
        ("220-" + "x" * 100_000, TryLater),
        ("", TryLater),
        ("220 ok\r\n", TryLater),
    ],
    ids=["421", "554", "nonsense", "bytes", "endless", "silent", "then silent"],
)
async def test_a_server_that_does_not_behave_is_bounded(mail, greeting, outcome):
    mail.greeting = greeting

    assert isinstance(await send(configured(mail), kind=Email(egress(mail_seconds=2))), outcome)


async def test_tls_is_not_given_up_when_the_server_offers_none():
    with MailServer(tls="none", user="") as mail:
        came = await send(configured(mail))

        assert came == Refused(response="the server offers no STARTTLS, and without TLS nothing is handed in")
        assert mail.messages == []


async def test_tls_from_the_first_byte():
    with MailServer(tls="implicit") as mail:
        came = await send(configured(mail, tls="implicit"))
        assert isinstance(came, Delivered), came
        wrong = await send(configured(mail, tls="implicit"), secrets={"password": "wrong"})
        assert isinstance(wrong, Refused)
        without = await send(configured(mail, tls="implicit", username=None), secrets={})
        assert without == Refused(response="530 5.7.0 log in first")


async def test_no_tls_only_where_the_installation_allows_it():
    with MailServer(tls="none", user="") as mail:
        configuration = configured(mail, tls="none", username=None)
        assert isinstance(await send(configuration, secrets={}), Refused)
        assert isinstance(await send(configuration, secrets={}, kind=Email(egress(), plain_allowed=True)), Delivered)


async def test_a_certificate_that_does_not_fit_is_not_accepted(mail):
    for configuration, guard in (
        (configured(mail, host="other.test"), egress()),
        (configured(mail), egress(ca_file=None)),
    ):
        came = await send(configuration, kind=Email(guard))
        assert isinstance(came, TryLater), came
        assert "certificate" in came.response
    mail.down()
    mail._context = authority().server_context(expired=True)
    mail.up()
    assert "expired" in (await send(configured(mail))).response
    assert mail.messages == []


async def test_each_recipient_gets_a_mail_of_its_own_and_no_others_address(mail):
    configuration = configured(mail, to=["a@example.org", "b@example.org", "a@EXAMPLE.org"])
    kind = Email(egress())
    recipients = kind.recipients(kind.check(configuration, {"password": "password"}))

    assert recipients == ["a@example.org", "b@example.org"]
    await asyncio.gather(*(send(configuration, recipient=recipient) for recipient in recipients))
    assert sorted(str(message["To"]) for message in mail.messages) == recipients
    assert await send(configuration, recipient="c@example.org") == Refused(
        response="the channel has no such recipient any more"
    )


async def test_names_outside_ascii(mail):
    configuration = configured(mail, to=["ops@bücher.example", "jörg@example.org"])
    kind = Email(egress())
    kept = kind.check(configuration, {"password": "password"})

    assert kept["to"] == ["ops@xn--bcher-kva.example", "jörg@example.org"]
    for recipient in kept["to"]:
        came = await send(kept, recipient=recipient)
        assert isinstance(came, Delivered), came
    assert mail.recipients == kept["to"]
    assert str(mail.messages[1]["To"]) == "jörg@example.org"


@pytest.mark.parametrize("address", NO_ADDRESSES, ids=ascii)
def test_what_is_no_plain_address_is_refused(address):
    with pytest.raises(ValueError, match="mailbox"):
        read_address(address)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"from": None}, "/configuration/from"),
        ({"tls": "none"}, "/configuration/tls"),
        ({"tls": "maybe"}, "/configuration/tls"),
        ({"port": 443}, "/configuration/port"),
        ({"port": 0}, "/configuration/port"),
        ({"host": "2130706433"}, "/configuration/host"),
        ({"host": "a\r\nb"}, "/configuration/host"),
        ({"host": None}, "/configuration/host"),
        ({"username": None}, "/secrets/password"),
        ({"username": "a\r\nb"}, "/configuration/username"),
        ({"from_name": "a\nb"}, "/configuration/from_name"),
        ({"to": []}, "/configuration/to"),
        ({"to": [f"a{number}@b.cd" for number in range(51)]}, "/configuration/to"),
        ({"to": ["a@b.cd", "x"]}, "/configuration/to/1"),
        ({"bcc": ["a@b.cd"]}, "/configuration/bcc"),
    ],
    ids=str,
)
def test_a_field_that_cannot_be_is_pointed_at(changes, pointer):
    given = {"host": "mail.example.com", "port": 587, "username": "u", "from": "a@b.cd", "to": ["a@b.cd"]}
    kind = Email(egress(mail_ports=frozenset({25, 465, 587})))
    with pytest.raises(InvalidInput) as refused:
        kind.check({**given, **changes}, {"password": "p"})

    assert refused.value.errors[0].pointer == pointer


async def test_the_installations_own_server_may_be_anywhere_and_speaks_for_the_installation():
    with MailServer(tls="starttls") as mail:
        own = Server(
            host="mail.test", port=mail.port, tls="starttls", username="user", password="password", guarded=False
        )
        kind = Email(egress(allowed=(), names=Names()), own, "alerts@installation.test")
        came = await send({"to": ["ops@example.org"]}, kind=kind, secrets={})

        assert isinstance(came, Delivered), came
        assert str(mail.messages[0]["From"]) == "Everwhen <alerts@installation.test>"
        for wrong in ({"from": "a@b.cd"}, {"port": 587}, {"username": "u"}, {"tls": "implicit"}):
            with pytest.raises(InvalidInput):
                kind.check({"to": ["ops@example.org"], **wrong}, {})
        with pytest.raises(InvalidInput):
            kind.check({"to": ["ops@example.org"]}, {"password": "p"})
        # A tenant that names the same server itself is held to the rules of tenants.
        assert isinstance(await send(configured(mail), kind=kind), Refused)
        assert len(mail.messages) == 1


def test_the_settings_of_that_server_are_read():
    assert read_server("smtps://u%40x:p%2Fw@mail.example.com") == Server(
        host="mail.example.com", port=465, tls="implicit", username="u@x", password="p/w", guarded=False
    )
    assert read_server("smtp://mail.example.com").tls == "starttls"
    assert (read_server("smtp://127.0.0.1:2525?tls=none").tls, read_server("smtp://[::1]").host) == ("none", "::1")
    for wrong in ("", "mail.example.com", "http://x.y", "smtp://", "smtp://a:canary@b:x", "smtps://a.b?tls=none"):
        with pytest.raises(ConfigurationError, match="smtp_url") as refused:
            read_server(wrong)
        assert "canary" not in str(refused.value)
    assert read_sender("a@b.cd") == "a@b.cd"
    with pytest.raises(ConfigurationError, match="smtp_from"):
        read_sender("x")
    assert "canary" not in repr(read_server("smtp://u:canary@mail.example.com"))
