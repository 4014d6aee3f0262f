"""Every address that a webhook must not reach is refused, and every one that it may is not."""

import socket
from ipaddress import ip_address, ip_network

import pytest

from everwhen.egress.addresses import FORBIDDEN, refusal
from everwhen.egress.targets import TargetRefused, read_host

DANGEROUS = """
127.0.0.1 0.0.0.0 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 192.0.0.1 192.0.0.9 192.0.2.1 198.18.0.1
203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255 ::1 :: ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1
64:ff9b::7f00:1 64:ff9b:1::7f00:1 2002:7f00:1:: 2001:0:53aa:64c:0:fbff:80ff:fffe fe80::1 fec0::1 fc00::1 fd00:ec2::254
2001:db8::1 ff02::1 100::1 5f00::1 192.88.99.1
127.255.255.254 10.255.255.255 172.31.255.255 192.168.255.255 100.127.255.255 169.254.0.1 198.51.100.7 198.19.255.255
100.100.100.200 168.63.129.16 192.0.0.192 0.1.2.3 239.255.255.255 ::ffff:10.0.0.1 ::ffff:7f00:1 ::ffff:0:7f00:1
::a00:1 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe:: fe80::1%1 fe80::1%lo fdff::1 ff05::2 3fff::1 4000::1 2001:10::1 2001:2::1
fd20:ce::254 100:0:0:1::1 8000::1 ::ffff:255.255.255.255 ::ffff:0.0.0.0
""".split()  # noqa: SIM905
HARMLESS = ["1.1.1.1", "8.8.8.8", "193.0.6.139", "2606:4700:4700::1111", "2001:67c:2e8:22::c100:68b", "::ffff:8.8.8.8"]
SPELLINGS = ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.1", "0", "①②⑦.0.0.1", "0x7f.1", "017700000001"]
CLOUDS = ["169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "0.0.0.0"]
CLOUDS += ["224.0.0.1", "255.255.255.255", "fe80::1", "ff02::1", "192.0.0.192", "fe80::1%lo", "::"]
ANYTHING = [ip_network("0.0.0.0/0"), ip_network("::/0")]


@pytest.mark.parametrize("address", DANGEROUS)
def test_what_is_not_public_is_refused(address):
    assert refusal(address)


@pytest.mark.parametrize("address", DANGEROUS)
def test_the_table_alone_refuses_it(address):
    plain = ip_address(address.partition("%")[0])
    inner = getattr(plain, "ipv4_mapped", None) or plain
    assert any(inner.version == network.version and inner in network for network, _ in FORBIDDEN)


@pytest.mark.parametrize("address", HARMLESS)
def test_what_is_public_is_not(address):
    assert refusal(address) is None


@pytest.mark.parametrize("address", ["", "localhost", "127.1", "2130706433", "1.1.1.1 ", "1.1.1.1/8", "::1]"])
def test_what_is_no_address_is_refused(address):
    assert refusal(address) == "not an address"


def test_a_network_is_opened_by_naming_it_and_only_it():
    allowed = [ip_network("10.1.0.0/16")]

    assert refusal("10.1.2.3", allowed=allowed) is None
    assert refusal("::ffff:10.1.2.3", allowed=allowed) is None
    assert refusal("10.2.0.1", allowed=allowed) == "private"
    assert refusal("127.0.0.1", allowed=allowed) == "loopback"


@pytest.mark.parametrize("address", CLOUDS)
def test_no_setting_opens_where_clouds_keep_credentials(address):
    assert refusal(address, allowed=ANYTHING)


@pytest.mark.parametrize("host", SPELLINGS)
def test_a_number_that_only_a_resolver_reads_as_an_address_is_refused_before_and_after(host):
    with pytest.raises(TargetRefused):
        read_host(host)
    found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, 443, proto=socket.IPPROTO_TCP)}
    assert found
    assert all(refusal(address) for address in found)
