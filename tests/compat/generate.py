"""Random scripts over a small name space, so that sessions collide often. One seed gives one script."""

from __future__ import annotations

import base64
import hashlib
from random import Random

from tests.compat.script import (
    EPHEMERAL,
    EPHEMERAL_SEQUENTIAL,
    OPEN,
    PERSISTENT,
    SEQUENTIAL,
    AclList,
    AddAuth,
    Call,
    Check,
    Close,
    Create,
    Delete,
    Drop,
    Exists,
    Expire,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    Open,
    Reopen,
    Request,
    Script,
    SetAcl,
    SetData,
    SetWatches,
    Step,
    Sync,
)

SLOTS = 4

_NAMES = ("a", "b", "c")
_USERS = ("amy:secret", "bob:x:y", "eve:")
_BAD_PATHS = (
    "@",
    "@relative",
    "@a/b",
    "/",
    "/a/",
    "//a",
    "/a//b",
    "/.",
    "/a/..",
    "/a/./b",
    "/\0",
    "/a\0b",
    "/a\x01",
    "/\x1f",
    "/a\x7f",
    "/\x9f",
    "/\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    "/\ufff0",
    "/\uf8ff",
    None,
)
_GOOD_ODD_PATHS = ("/ü", "/a b", "/...", "/.a", "/a\u3000", "/\U0001f600", "/%2F", "/a.b")
_FIXED = ("@/", "@/zookeeper", "@/zookeeper/config", "@/zookeeper/quota", "@/zookeeper/missing")


def digest(user: str) -> str:
    """Return the id of a digest ACL for `name:password`."""
    hashed = base64.b64encode(hashlib.sha1(user.encode()).digest()).decode()
    return f"{user.split(':', 1)[0]}:{hashed}"


class Generator:
    """Draws steps; `bursts` sends several requests of a session at once instead of one at a time."""

    def __init__(self, seed: int, bursts: bool = False) -> None:
        self._random = Random(seed)
        self._bursts = bursts

    def script(self, length: int) -> Script:
        """Return a script of `length` steps after the opening of all slots."""
        steps: Script = [Open(slot) for slot in range(SLOTS)]
        steps += [self._step() for _ in range(length)]
        return steps

    def _step(self) -> Step:
        slot = self._random.randrange(SLOTS)
        chance = self._random.random()
        if chance < 0.94:
            return self._call(slot)
        if chance < 0.942:
            return Expire(slot)
        ends: list[Step] = [
            Close(slot),
            Open(slot),
            Drop(slot),
            Reopen(slot),
            Reopen(slot),
            Reopen(slot),
            Reopen(slot, good_password=False),
            Reopen(slot, ahead=True),
        ]
        return self._random.choice(ends)

    def _call(self, slot: int) -> Call:
        if self._bursts:
            count = self._random.randrange(1, 9)
            return Call(slot, tuple(self._request(auth=False) for _ in range(count)))
        return Call(slot, (self._request(auth=True),))

    def _request(self, auth: bool) -> Request:
        chance = self._random.random()
        if chance < 0.30:
            return self._write()
        if chance < 0.42:
            return self._multi()
        if chance < 0.92:
            return self._read()
        if chance < 0.96 or not auth:
            return self._set_watches()
        return self._auth()

    def _write(self) -> Request:
        kind = self._random.choices(("create", "delete", "set", "acl"), (8, 4, 5, 1))[0]
        if kind == "create":
            return self._create()
        if kind == "delete":
            return Delete(self._path(), self._version())
        if kind == "set":
            return SetData(self._path(), self._data(), self._version())
        return SetAcl(self._path(), self._acls(), self._version())

    def _create(self) -> Create:
        flags = self._random.choices(
            (PERSISTENT, EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL, 4, 5, 6, 7, -1, 99),
            (60, 14, 12, 8, 1, 1, 1, 1, 1, 1),
        )[0]
        path = self._path()
        if flags in (SEQUENTIAL, EPHEMERAL_SEQUENTIAL) and path is not None and self._random.random() < 0.8:
            path = self._random.choice(("/q", "/a/q", "/a/"))
        acls = self._acls() if self._random.random() < 0.15 else OPEN
        return Create(path, self._data(), flags, acls, self._random.random() < 0.4)

    def _read(self) -> Request:
        watch = self._random.random() < 0.5
        path = self._random.choice(_FIXED) if self._random.random() < 0.04 else self._path()
        kind = self._random.randrange(8)
        if kind < 2:
            return Exists(path, watch)
        if kind < 4:
            return GetData(path, watch)
        if kind < 6:
            return (
                GetChildren(path, watch and path != "@/", self._random.random() < 0.6)
                if path != "@/"
                else Exists(path)
            )
        if kind == 6:
            return GetAcl(path)
        return Sync(path)

    def _multi(self) -> Multi:
        count = self._random.choices(range(11), (1, 4, 8, 8, 6, 4, 3, 2, 2, 2, 2))[0]
        return Multi(tuple(self._multi_op() for _ in range(count)))

    def _multi_op(self) -> Request:
        kind = self._random.choices(("create", "delete", "set", "check", "read"), (9, 6, 6, 5, 0.1))[0]
        likely = self._random.random() < 0.8
        path = self._random.choice(("/a", "/b", "/a/b", "/a/a")) if likely else self._path()
        version = -1 if likely else self._version()
        if kind == "create":
            return self._create()._replace(path=path) if likely else self._create()
        if kind == "delete":
            return Delete(path, version)
        if kind == "set":
            return SetData(path, self._data(), version)
        if kind == "check":
            return Check(path, version)
        return GetData(path)

    def _set_watches(self) -> SetWatches:
        since = self._random.choices(("last", "zero", "future"), (4, 1, 1))[0]
        return SetWatches(since, self._good_paths(), self._good_paths(), self._good_paths())

    def _good_paths(self) -> tuple[str, ...]:
        return tuple(self._good_path() for _ in range(self._random.randrange(4)))

    def _auth(self) -> AddAuth:
        scheme = self._random.choices(
            ("digest", "ip", "world", "nonsense", "", "super"), (40, 3, 1, 1, 1, 1)
        )[0]
        user = self._random.choice(_USERS).encode() if scheme == "digest" else b"127.0.0.1"
        return AddAuth(scheme, user)

    def _path(self) -> str | None:
        chance = self._random.random()
        if chance < 0.03:
            return self._random.choice(_BAD_PATHS)
        if chance < 0.05:
            return self._random.choice(_GOOD_ODD_PATHS)
        return self._good_path()

    def _good_path(self) -> str:
        chance = self._random.random()
        if chance < 0.03:
            return ""
        if chance < 0.10:
            parent = self._random.choice(("", "/a"))
            return f"{parent}/q{self._random.randrange(8):010d}"
        depth = self._random.choices((1, 2, 3), (6, 5, 1))[0]
        return "".join("/" + self._random.choice(_NAMES[: 4 - depth]) for _ in range(depth))

    def _version(self) -> int:
        if self._random.random() < 0.6:
            return -1
        return self._random.choice((0, 0, 1, 1, 2, 3, -2, 2**31 - 1, -(2**31)))

    def _data(self) -> bytes | None:
        return self._random.choice((b"", b"x", b"yy", b"\0\xff" * 3, b"z" * 1000, None))

    def _acls(self) -> AclList | None:
        if self._random.random() < 0.15:
            return self._random.choice(_BAD_ACLS)
        entries = [self._acl() for _ in range(self._random.choice((1, 1, 2, 3)))]
        if self._random.random() < 0.5:
            entries.append((31, "auth", ""))
        return tuple(entries)

    def _acl(self) -> tuple[int, str, str]:
        perms = self._random.choice((31, 31, 31, 1, 2, 4, 8, 16, 15, 30, 0, 32, -1))
        scheme, name = self._random.choice(
            (
                ("world", "anyone"),
                ("world", "anyone"),
                ("auth", ""),
                ("auth", "ignored"),
                ("ip", "127.0.0.1"),
                ("ip", "127.0.0.0/8"),
                ("ip", "10.0.0.0/8"),
                ("digest", digest(self._random.choice(_USERS))),
            )
        )
        return perms, scheme, name


_BAD_ACLS: tuple[AclList | None, ...] = (
    None,
    (),
    ((31, "world", "someone"),),
    ((31, "digest", "nocolon"),),
    ((31, "digest", "a:b:c"),),
    ((31, "ip", "300.1.1.1"),),
    ((31, "ip", "127.0.0.1/33"),),
    ((31, "nonsense", "x"),),
    ((31, "", ""),),
    ((31, "world", "anyone"), (31, "nonsense", "x")),
)
