"""What a URL may be: one strict reading, and everything that two readers could read differently is refused."""

import pytest

from everwhen.egress.policy import EgressPolicy
from everwhen.egress.targets import TargetRefused, read_host, read_url

POLICY = EgressPolicy()
REFUSED = [
    "", "x", "https:", "https://", "https:///x", "//example.com/", "http://example.com/", "HTTP://example.com/",
    "ftp://example.com/", "file:///etc/passwd", "gopher://example.com:443/_x", "dict://example.com:443/",
    "javascript:alert(1)", "data:text/plain,x", "https:example.com", "https:/example.com", "https:\\\\example.com",
    "https://a@example.com/", "https://a:b@example.com/", "https://127.0.0.1@example.com/", "https://@example.com/",
    "https://example.com@127.0.0.1/", "https://example.com%40127.0.0.1/", "https://example.com:443@127.0.0.1/",
    "https://example.com#@127.0.0.1/", "https://example.com/#x", "https://example.com/x#", "https://exa mple.com/",
    "https://example.com/\r\nHost: evil", "https://example.com/\nX", "https://exam\tple.com/", "https://example.com/ x",
    "https://example.com\r\n/", "https://example.com/\x00", "https://example.com/\x7f", "https://example.com/\ud800",
    "https://example.com\\@127.0.0.1/", "https://127.0.0.1\\.example.com/", "https://example.com\\/", " https://a.b/",
    "https://example.com:22/", "https://example.com:80/", "https://example.com:0/", "https://example.com:65536/",
    "https://example.com:-1/", "https://example.com:/", "https://example.com:443x/", "https://example.com: 443/",
    "https://example.com:+443/", "https://example.com:443:443/", "https://example.com:25/", "https://example.com:6379/",
    "https://example.com:٤٤٣/", "https://[::1/", "https://::1/", "https://[::1]x/", "https://[fe80::1%25lo]/",
    "https://[fe80::1%lo]/", "https://[::ffff:127.0.0.1%1]/", "https://[127.0.0.1]/", "https://[v1.x]/", "https://[]/",
    "https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/", "https://127.1/", "https://0/", "https://127/",
    "https://0x7f.1/", "https://127.0.0.1./", "https://1.2.3.4.5/", "https://1.2.3/", "https://example.0x1/",
    "https://example.1/", "https://①②⑦.0.0.1/", "https://127。0。0。1/", "https://127．0．0．1/", "https://ⓛocalhost/",
    "https://𝟏𝟐𝟕.𝟎.𝟎.𝟏/", "https://examplE\u200b.com/", "https://example.com\u202e/", "https://exa\u00admple.com/",
    "https://example．com。/", "https://.example.com/", "https://example..com/", "https://-example.com/",
    "https://example-.com/", "https://exam!ple.com/", "https://exam%70le.com/", "https://%31%32%37.0.0.1/",
    "https://localhost%00.example.com/", "https://example.com%2f@127.0.0.1/", "https://a,b.com/", "https://*.com/",
    "https://example.com;x/", "https://(example.com)/", "https://" + "a" * 64 + ".com/",
    "https://" + "a." * 127 + "com/",
    "https://example.com/" + "x" * 2048, "https://example.com/ü", "https://example.com/?q=ü", "https://ex&ample.com/",
    "https://example.com?x@127.0.0.1:22\\", "https://$HOME.com/", "https://{x}.com/", "https://'x'.com/", 'https://"/',
    "wss://example.com/", "https+unix://x/", "unix:/var/run/docker.sock", "https://0x/", "https://0x7f.0.0.0x1/",
]  # fmt: skip


@pytest.mark.parametrize("url", REFUSED, ids=ascii)
def test_a_url_that_is_not_plain_is_refused_without_being_quoted(url):
    with pytest.raises(TargetRefused) as refused:
        read_url(url, policy=POLICY)

    assert len(url) < 2 or url not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("https://example.com", "example.com", "/"),
        ("https://EXAMPLE.com:443/a/b?c=d&e=%20", "example.com", "/a/b?c=d&e=%20"),
        ("https://example.com:8443/", "example.com:8443", "/"),
        ("https://example.com./x", "example.com", "/x"),
        ("https://bücher.example/", "xn--bcher-kva.example", "/"),
        ("https://xn--bcher-kva.example/?", "xn--bcher-kva.example", "/"),
        ("https://[2606:4700:4700:0:0:0:0:1111]/", "[2606:4700:4700::1111]", "/"),
        ("https://1.1.1.1/x", "1.1.1.1", "/x"),
        ("https://a_b.example.com/", "a_b.example.com", "/"),
        ("https://example.com/@x", "example.com", "/@x"),
    ],
)
def test_a_plain_url_is_read(url, authority, path):
    target = read_url(url, policy=POLICY)

    assert (target.authority, target.path) == (authority, path)


def test_plain_http_is_for_the_installation_to_allow():
    allowing = EgressPolicy(plain_http=True)

    assert read_url("http://example.com/", policy=allowing).authority == "example.com"
    with pytest.raises(TargetRefused, match="port 22"):
        read_url("http://example.com:22/", policy=allowing)


def test_a_host_by_itself_is_read_alike():
    assert read_host("Mail.Example.") == "mail.example"
    assert read_host("2606:4700::0:ABCD") == "2606:4700::abcd"
    for host in ("a b", "a/b", "a:25", "fe80::1%lo", "[::1]", "", "a\n"):
        with pytest.raises(TargetRefused):
            read_host(host)
