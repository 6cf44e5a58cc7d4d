"""Texts of ZooKeeper's settings as texts of the options that mean the same.

Each function raises ArgumentTypeError for a bad text.
"""

from argparse import ArgumentTypeError

from proxy.support.files import bounded, check_no_pipe

_TLS_VERSIONS = {"TLSv1.2": "1.2", "TLSv1.3": "1.3"}


def number(text: str) -> str:
    """A number. Java reads hexadecimal ones too (Integer.getInteger)."""
    try:
        return str(int(text, 0))
    except ValueError:
        return text


def timeout(text: str) -> str | None:
    """A session timeout; None for -1, which stands for 2 or 20 ticks."""
    return None if text == "-1" else text


def switch(text: str) -> str:
    """`on` for true, `off` for false."""
    if text.lower() not in ("true", "false"):
        raise ArgumentTypeError(f"{text!r} is neither true nor false")
    return "on" if text.lower() == "true" else "off"


def audit_log(text: str) -> str:
    """ZooKeeper's audit log goes where all messages go."""
    return "-" if switch(text) == "on" else ""


def oldest_tls(text: str) -> str:
    """The oldest version of TLS in a list of Java's names. All newer ones are accepted."""
    found = [_TLS_VERSIONS.get(name.strip()) for name in text.split(",")]
    known = sorted(version for version in found if version)
    if not known:
        raise ArgumentTypeError(f"{text!r} names no version of TLS that zketcd has: TLSv1.2, TLSv1.3")
    return known[0]


def first_line(path: str) -> str:
    """The first line of a file."""
    try:
        check_no_pipe(path)
        with open(path, encoding="utf-8-sig") as stream:
            return bounded(stream).split("\n", 1)[0].rstrip("\r")
    except (OSError, ValueError) as error:
        raise ArgumentTypeError(f"it cannot be read: {error}") from error
