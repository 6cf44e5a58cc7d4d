"""The file of the console's users: a line NAME:scrypt:N:R:P:SALT:HASH for each.

`zketcd console-user` prints such a line.

To compute a hash takes some 50 ms: callers do it in a thread.
"""

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from proxy.support.files import bounded

#: Characters of a password, at least and at most.
SHORTEST, LONGEST = 8, 1024
# RFC 7914's parameters for logins: 16 MiB and some 50 ms.
_COST, _BLOCK, _PARALLEL = 1 << 14, 8, 1
# A file cannot make a login use more memory than this.
_MOST_MEMORY = 256 << 20
_SALT_BYTES = 16
_HASH_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Secret(NamedTuple):
    """What is kept of a password."""

    cost: int
    block: int
    parallel: int
    salt: bytes
    hash: bytes


def make(password: str) -> Secret:
    """A secret with a new salt. Raises ValueError for a password that is too short or too long."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise ValueError(f"a password has {SHORTEST} to {LONGEST} characters")
    salt = os.urandom(_SALT_BYTES)
    return Secret(
        _COST, _BLOCK, _PARALLEL, salt, _hashed(password, _COST, _BLOCK, _PARALLEL, salt, _HASH_BYTES)
    )


def is_right(password: str, secret: Secret | None) -> bool:
    """Whether it is the password. Without a secret it never is, and takes as long to find out."""
    known = secret or Secret(_COST, _BLOCK, _PARALLEL, bytes(_SALT_BYTES), bytes(_HASH_BYTES))
    found = _hashed(password, known.cost, known.block, known.parallel, known.salt, len(known.hash))
    return hmac.compare_digest(found, known.hash) and secret is not None


def check_name(name: str) -> None:
    """Raises ValueError for a name that no user can have."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is no user's name: it has up to 64 letters, digits, and . _ @ - behind the first one"
        )


def line(name: str, secret: Secret) -> str:
    """The user's line in the file. Raises ValueError for a name that cannot be one."""
    check_name(name)
    salt, hashed = (base64.b64encode(part).decode() for part in (secret.salt, secret.hash))
    return f"{name}:scrypt:{secret.cost}:{secret.block}:{secret.parallel}:{salt}:{hashed}"


def read(file: str) -> Mapping[str, Secret]:
    """The users of a file. Raises ValueError that names the file, the line and what is wrong; blocks."""
    try:
        with open(file, encoding="utf-8-sig") as stream:
            text = bounded(stream)
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: it is not UTF-8") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: {getattr(error, 'strerror', None) or error}") from error
    found: dict[str, Secret] = {}
    # Not splitlines, which ends a comment at U+2028, form feeds and others.
    for number, raw in enumerate(text.split("\n"), 1):
        entry = raw.strip()
        if not entry or entry.startswith("#"):
            continue
        try:
            name, secret = _parsed(entry)
        except ValueError as error:
            raise ValueError(f"{file}, line {number}: {error}") from error
        if name in found:
            raise ValueError(f"{file}, line {number}: the user {name} is there twice")
        found[name] = secret
    if not found:
        raise ValueError(f"{file} names no user: `zketcd console-user NAME` prints a line for it")
    return found


def _parsed(entry: str) -> tuple[str, Secret]:
    parts = entry.split(":")
    if len(parts) != 7 or parts[1] != "scrypt" or not _NAME.fullmatch(parts[0]):
        raise ValueError("it is not NAME:scrypt:N:R:P:SALT:HASH as `zketcd console-user NAME` prints it")
    try:
        cost, block, parallel = (int(part) for part in parts[2:5])
        salt, hashed = (base64.b64decode(part, validate=True) for part in parts[5:])
    except (ValueError, binascii.Error):
        raise ValueError("a number or the base64 of the salt or hash is wrong") from None
    usual = cost >= 1 << 14 and cost & (cost - 1) == 0 and block >= 8 and parallel >= 1
    if not usual or 128 * cost * block * parallel > _MOST_MEMORY // 2 or len(salt) < 8 or len(hashed) < 16:
        raise ValueError("the parameters of scrypt are too weak, or need too much memory")
    return parts[0], Secret(cost, block, parallel, salt, hashed)


def _hashed(password: str, cost: int, block: int, parallel: int, salt: bytes, size: int) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=cost,
        r=block,
        p=parallel,
        maxmem=_MOST_MEMORY,
        dklen=size,
    )
