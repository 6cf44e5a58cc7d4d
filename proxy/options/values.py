"""How the value of an option is read from its text.

Each function that reads a text raises ArgumentTypeError for a bad one.
"""

import ipaddress
import os
import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import TypeVar

from proxy.support.controls import CONTROLS
from proxy.support.files import check_no_pipe
from schema.keys import Keyspace
from schema.paths import is_valid

T = TypeVar("T")

EMBEDDED = "embedded"
"""The value of --etcd that starts an etcd."""
NO_ADMIN = ("", -1)
"""What `admin` returns for `none`."""
MAX_PORT = 65535
MAX_INT = (1 << 31) - 1  # of an int in ZooKeeper's protocol and settings
# A connect request has 45 bytes; what follows it has paths and SASL tokens.
_LEAST_FRAME = 1024
# Below two seconds a short stall of etcd's disk ends leases. Above a minute orphaned sessions last too long.
_PROXY_LEASE = range(2, 61)
_MOST_PERCENT = 90
_LEAST_STANDBY = 5  # seconds: signs of life may be 4 s old when they are read


def checked(parse: Callable[[str], T]) -> Callable[[str], T]:
    """A type for argparse that reports the ValueError of `parse`; of its own, argparse shows only a name."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from error

    return parsed


def address(text: str) -> tuple[str, int]:
    """HOST:PORT to listen on; an IPv6 host in brackets. Without a host, or with `*`: all addresses."""
    found = re.fullmatch(r"(\[[^\[\]/,\s]+\]|[^\[\]:/,\s]*):(\d+)", text)
    if found is None or _digits(found[2]) > MAX_PORT or not _is_host(found[1]):
        raise ArgumentTypeError(f"{text!r} is not HOST:PORT, with an IPv6 address in brackets")
    return "" if found[1] == "*" else found[1].strip("[]"), int(found[2])


def _is_host(name: str) -> bool:
    """Whether a name can be looked up: its labels are neither empty nor too long."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True


def admin(text: str) -> tuple[str, int]:
    """As `address`, or `none`, which gives NO_ADMIN."""
    return NO_ADMIN if text == "none" else address(text)


def endpoints(text: str) -> tuple[str, ...]:
    """Client URLs of etcd, separated by commas; none for `embedded`."""
    if text == EMBEDDED:
        return ()
    if "@" in text:
        raise ArgumentTypeError("give --etcd-user and --etcd-password, not a user and password in a URL")
    endpoints = tuple(endpoint.strip() for endpoint in text.split(","))
    for endpoint in endpoints:
        if re.fullmatch(r"unix:///\S+", endpoint):
            continue
        found = re.fullmatch(r"(?:https?://)?([^/\s:]+|\[[0-9a-fA-F:]+\])(?::(\d+))?", endpoint.rstrip("/"))
        if found is None or (found[2] and _digits(found[2]) > MAX_PORT) or not _is_host(found[1]):
            raise ArgumentTypeError(f"{endpoint!r} is not an etcd endpoint such as http://127.0.0.1:2379")
    if len({endpoint.startswith("https://") for endpoint in endpoints}) > 1:
        raise ArgumentTypeError("some endpoints are https:// and some are not: use TLS for all or for none")
    return endpoints


# An IPv4 client of a socket for both kinds.
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


def networks(text: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Addresses and networks such as 10.0.0.0/8, separated by commas; "" for none."""
    try:
        found = tuple(ipaddress.ip_network(each.strip()) for each in text.split(",") if text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r}: {error}") from error
    for network in found:
        if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
            raise ArgumentTypeError(f"{text!r}: to a port, {network} are IPv4 clients: write it as IPv4")
    return found


@checked
def prefix(text: str) -> str:
    """A prefix of keys in etcd. It stands in messages, and in names of files."""
    if not CONTROLS.isdisjoint(map(ord, text)):
        raise ArgumentTypeError(f"{text!r} has control characters")
    Keyspace(text)
    return text


def unicode(text: str) -> str:
    """A text that clients get. The environment may have any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError("it is not UTF-8") from None
    return text


def node_path(text: str) -> str:
    """The absolute path of a node."""
    if not is_valid(text):
        raise ArgumentTypeError(f"{text!r} is no path of a node, such as /a/b")
    return text


def identity(text: str) -> tuple[str, bytes]:
    """SCHEME:ID of a client. The error does not show the text: it may be a password."""
    scheme, colon, name = text.partition(":")
    if not colon or not scheme:
        raise ArgumentTypeError("it is not SCHEME:ID")
    return scheme, name.encode()


def directory(text: str) -> str:
    """A directory, which need not exist yet."""
    if not text or (os.path.exists(text) and not os.path.isdir(text)):
        raise ArgumentTypeError(f"{text!r} is not a directory")
    return text


@checked
def file(text: str) -> str:
    """A file that can be read; "" for none."""
    if text and (os.path.isdir(text) or not os.access(text, os.R_OK)):
        raise ArgumentTypeError(f"{text!r} is not a readable file")
    check_no_pipe(text)
    return text


def digest(text: str) -> str:
    """USER:HASH as ZooKeeper's superDigest; "" for none."""
    if text and not re.fullmatch(r"[^:]*:[A-Za-z0-9+/]{27}=", text):
        raise ArgumentTypeError("it is not NAME:HASH, with the base64 of the SHA-1 of NAME:PASSWORD")
    return text


def positive(text: str) -> int:
    """A whole number from 1 up."""
    if not 1 <= _digits(text) <= MAX_INT:
        raise ArgumentTypeError(f"{text!r} is not a whole number {_range(text, 1)}")
    return int(text)


def standby(text: str) -> int:
    """Seconds in which a standby is heard, or 0."""
    if _digits(text) and not _LEAST_STANDBY <= _digits(text) <= MAX_INT:
        raise ArgumentTypeError(f"{text!r} is neither 0 nor a whole number {_range(text, _LEAST_STANDBY)}")
    return int(text)


def frame(text: str) -> int:
    """Bytes of the largest request."""
    found = positive(text)
    if found < _LEAST_FRAME:
        raise ArgumentTypeError(f"{text!r} is below {_LEAST_FRAME} bytes: clients could not connect")
    return found


def percent(text: str) -> int:
    """A share of a whole, of which some has to remain."""
    if not 0 <= _digits(text) <= _MOST_PERCENT:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 0 to {_MOST_PERCENT}")
    return int(text)


def lease(text: str) -> int:
    """Seconds of the proxy's lease."""
    if _digits(text) not in _PROXY_LEASE:
        low, high = _PROXY_LEASE[0], _PROXY_LEASE[-1]
        raise ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
    return int(text)


def truth(text: str) -> bool:
    """`true` or `false`, in any case."""
    if text.lower() not in ("true", "false"):
        raise ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _digits(text: str) -> int:
    """The number that at most ten digits form; of any other text a number that no option accepts."""
    return int(text) if re.fullmatch("[0-9]{1,10}", text) else MAX_INT + 1


def _range(text: str, low: int) -> str:
    """What is expected in place of a text. The upper limit is named where it is exceeded."""
    return f"from {low} to {MAX_INT}" if text.isdecimal() and text.strip("0") else f"from {low} up"


def timeout(text: str) -> str:
    """Milliseconds, or a number of ticks."""
    if not re.fullmatch(r"[1-9]\d{0,8}( ticks)?", text):
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 up, in milliseconds")
    return text


def milliseconds(timeout: str, tick_time: int) -> int:
    """A `timeout` in milliseconds."""
    number, _, ticks = timeout.partition(" ")
    return int(number) * (tick_time if ticks else 1)


def not_negative(text: str) -> int:
    """A whole number from 0 up."""
    if _digits(text) > MAX_INT:
        raise ArgumentTypeError(f"{text!r} is not a whole number {_range(text, 0)}")
    return int(text)
