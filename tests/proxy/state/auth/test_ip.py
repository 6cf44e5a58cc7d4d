"""Scheme ip: addresses and networks as ZooKeeper reads them."""

import ipaddress
import struct

from hypothesis import given
from hypothesis import strategies as st

from proxy.state.auth.ip import IP, java_address
from tests.proxy.state.auth.matching import matches
from tests.table import one_by_one

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_V4 = st.ip_addresses(v=4)
_V6 = st.ip_addresses(v=6)


def text(address: Address) -> str:
    """Without an IPv4 part in IPv6: Python 3.13 writes one, which ZooKeeper does not read."""
    if address.version == 4:
        return str(address)
    return ":".join(f"{part:x}" for part in struct.unpack(">8H", address.packed))


@given(st.one_of(st.tuples(_V4, _V4, st.integers(0, 32)), st.tuples(_V6, _V6, st.integers(0, 128))))
def test_an_entry_is_a_network(drawn: tuple[Address, Address, int]) -> None:
    base, far, bits = drawn
    network = ipaddress.ip_network((base, bits), strict=False)
    inside = network[hash(far) % network.num_addresses]
    for address in (base, far, inside):
        assert matches(IP, text(address), f"{text(base)}/{bits}") is (address in network)
    assert matches(IP, text(base), text(base))


_TAKEN = """
    1.2.3.\u0664 1.2.3.4 010.2.3.4 00.+0.-0.000 1.2.3.4/0 1.2.3.4/00 1.2.3.4/32 1.2.3.4/+8
    :: ::1/128 1:2:3:4:5:6:7:8 fe80::/10
"""
_NOT_TAKEN = """
    1.2.3.\U0001d7cf 1.2.3.4/\U0001d7cf
    1.2.3 1.2.3.+ 1.2.3.4/- 1.2.3.4/+
    1.2.3.4.5 1.2.3.256 1.2.3.-1 1.2.3.x 1.2.3.4/33 1.2.3.4/-1 1.2.3.4/ 1.2.3.4/8/8 localhost
    1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 1::2::3 ::: 12345:: g:: ::/129 ::1.2.3.4
"""


def test_entries_of_acls() -> None:
    assert [name for name in (*_TAKEN.split(), f"1.2.3.{'0' * 5000}4") if not IP.is_valid(name)] == []
    long = "9" * 5000
    assert [
        name for name in (*_NOT_TAKEN.split(), "", f"1.2.3.{long}", f"1.2.3.4/{long}") if IP.is_valid(name)
    ] == []


@one_by_one(
    ("text", "java"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::a0", "2001:db8:0:0:0:0:0:a0"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_an_address_is_written_as_java_does(text: str, java: str) -> None:
    assert java_address(text) == java
