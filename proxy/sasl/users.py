"""Names and passwords of DIGEST-MD5's users, as options and files have them. Pure."""

import re

from proxy.sasl.digest_md5 import REALM, secret

_HA1 = "{ha1}"


def user(text: str) -> tuple[str, bytes]:
    """NAME:PASSWORD, or NAME:{ha1}HASH, as (name, its secret). Raises ValueError, which shows no password."""
    name, colon, word = text.partition(":")
    if not colon or not name:
        raise ValueError(f"a user without a name or colon: it is NAME:PASSWORD or NAME:{_HA1}HASH")
    check_name(name)
    if not word:
        raise ValueError(f"user {name!r} has no password")
    if not word.startswith(_HA1):
        return name, secret(name, word)
    digits = word.removeprefix(_HA1)
    if not re.fullmatch("[0-9a-fA-F]{32}", digits):
        raise ValueError(
            f"user {name!r}: after {_HA1} belong 32 hex digits: the MD5 of NAME:{REALM}:PASSWORD"
        )
    return name, bytes.fromhex(digits)


def check_name(name: str) -> None:
    """Raises ValueError for a name that no entry of an ACL could have (KerberosName)."""
    if name.count("@") > 1:
        raise ValueError(f"user {name!r}: a name has at most one @")


def lines(text: str) -> dict[str, bytes]:
    """The users of a file, one a line; empty lines and comments (#) are ignored. Raises ValueError.

    A file without users is refused: with it alone, a proxy would serve all clients without SASL.
    """
    found: dict[str, bytes] = {}
    # Not splitlines, which splits passwords at U+2028, form feeds and others.
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.removesuffix("\r")
        if not line or line.startswith("#"):
            continue
        try:
            add(found, *user(line))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    if not found:
        raise ValueError("it names no user")
    return found


def add(users: dict[str, bytes], name: str, word: bytes) -> None:
    """Take one more. Raises ValueError if there is another of this name."""
    if users.setdefault(name, word) != word:
        raise ValueError(f"user {name!r} is given twice, with different passwords")
