"""Public addresses by the IANA registries and the providers' own, on every Python version.

Mutants: `ipaddress.is_global` instead of the tables; an IPv4 address inside an IPv6 one is not
found; a machine's own address counts as another's.
"""

import shutil
import subprocess
import sys

import pytest

from taofold.network import bare_url, http_parts, is_loopback, is_own, is_public

NEAR = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1
127.255.255.254 168.63.129.16 161.26.0.10 166.9.250.1 169.254.0.23 169.254.169.254 169.254.170.2
169.254.170.23 169.254.42.42 172.16.0.1 172.31.255.255 192.0.0.9 192.0.0.192 192.0.2.1
192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1
239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1 ::a9fe:a9fe ::ffff:127.0.0.1
::ffff:7f00:1 ::ffff:169.254.169.254 ::ffff:0:127.0.0.1 ::ffff:168.63.129.16 64:ff9b::127.0.0.1
64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b::10.0.0.1 64:ff9b:1::1 64:ff9b:1::8.8.8.8 100::1
100:0:0:1::1 2001::1 2001:0:7f00:1:: 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1::
2002:a9fe:a9fe:: 2002:808:808:: 3fff::1 4000::1 5f00::1 fc00::1 fd00:ec2::254 fd00:42::42
fd20:ce::254 fd00:c1::a9fe:a9fe fe80::1 fe80::a9fe:a9fe fe80::1%eth0 fec0::1 feff::1 ff02::1
ff0e::1 2606:4700::5efe:127.0.0.1 2606:4700::200:5efe:10.0.0.1 2606:4700::300:5efe:a9fe:a9fe
nonsense 127.1 0x7f.0.0.1 0177.0.0.1 2130706433 127.0.0.1:80 localhost
"""
FAR = """
1.1.1.1 8.8.8.8 9.9.9.9 11.0.0.1 93.184.215.14 100.63.255.255 100.128.0.1 126.255.255.255
128.0.0.1 168.63.129.15 168.63.129.17 161.25.255.255 166.12.0.1 169.253.255.255 169.255.0.1
172.15.255.255 172.32.0.1 192.0.1.1 192.167.255.255 192.169.0.1 198.17.255.255 198.20.0.1
223.255.255.255 2000::1 2001:200::1 2001:4860:4860::8888 2003::1 2606:4700:4700::1111
2620:fe::fe 2a00:1450:4001:800::200e 3ffe::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8
2606:4700::5efe:8.8.8.8
"""


@pytest.mark.parametrize("address", NEAR.split())
def test_what_is_near_reserved_or_no_address_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", FAR.split())
def test_what_lies_beside_a_reserved_range_is_public(address: str) -> None:
    assert is_public(address)


def test_the_loopback_addresses_are_this_machines_own() -> None:
    assert is_own("127.0.0.1")
    assert not is_own("nonsense")


HERE = "localhost 127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1"
ELSEWHERE = """
10.0.0.1 192.168.0.1 0.0.0.0 :: ::127.0.0.1 64:ff9b::7f00:1 127.1 2130706433 0x7f.0.0.1
localhost.example.org 127.0.0.1.example.org jenkins ::ffff:10.0.0.1
"""


@pytest.mark.parametrize("host", HERE.split())
def test_loopback_is_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", [*ELSEWHERE.split(), ""])
def test_private_networks_and_other_names_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_a_public_address_of_this_machine_is_its_own() -> None:
    """A service behind the machine's firewall would be reached from inside."""
    program = (
        "from taofold.network import bare_url, http_parts, is_own, is_public\n"
        "from taofold.network import reachable\n"
        "print(is_public('9.9.9.9'), is_own('9.9.9.9'), reachable('9.9.9.9'), is_own('9.9.9.8'))"
    )
    setup = 'ip link set lo up && ip addr add 9.9.9.9/32 dev lo && exec "$@"'
    command = ["unshare", "-rn", "sh", "-c", setup, "sh", sys.executable, "-c", program]
    if not shutil.which("unshare") or not shutil.which("ip"):
        pytest.skip("needs unshare and ip (util-linux, iproute2)")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "unshare" in done.stderr:
        pytest.skip(f"no network namespace can be made here: {done.stderr.strip()}")
    assert done.stdout.split() == ["True", "True", "False", "False"], done.stderr


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a/",
        "https://",
        "a/b",
        "http://a:x/",
        "http://a:99999/",
        "http://a:0/",
        "http://[::1/",
    ],
)
def test_a_configured_url_is_of_http_and_names_a_host(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|[Pp]ort"):
        http_parts(url)


def test_what_is_shown_of_a_url_holds_no_credentials_and_no_query() -> None:
    url = "https://me:secret@[2001:db8::1]:8443/v1?key=secret#secret"
    assert http_parts(url).password == "secret"
    assert bare_url(url) == "https://[2001:db8::1]:8443/v1"
    assert bare_url("http://me@host:8000/v1?key=k") == "http://host:8000/v1"
