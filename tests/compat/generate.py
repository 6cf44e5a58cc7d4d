"""Random scripts over a small name space, so that sessions collide often. One seed gives one script."""

from __future__ import annotations

import base64
import hashlib
from random import Random

from lab.oracle.requests import (
    CONTAINER,
    EPHEMERAL,
    EPHEMERAL_SEQUENTIAL,
    OPEN,
    PERSISTENT,
    SEQUENTIAL,
    SEQUENTIAL_WITH_TTL,
    WITH_TTL,
    AclList,
    AddAuth,
    AddWatch,
    Check,
    CheckWatches,
    Create,
    CreateContainer,
    CreateTtl,
    Delete,
    Exists,
    GetAcl,
    GetAllChildrenNumber,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    MultiRead,
    Ping,
    Reconfig,
    RemoveWatches,
    Request,
    Sasl,
    SetAcl,
    SetData,
    SetWatches,
    SetWatches2,
    Sync,
    WhoAmI,
)
from tests.compat.script import Call, Close, Drop, Expire, Open, Reopen, Script, Step

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
_LIMITS, _STATS = "~/a/zookeeper_limits", "~/a/zookeeper_stats"
_QUOTA = (Create("~"), Create("~/a"), Create(_LIMITS, b"countHardLimit=5"), Create(_STATS))
_TTL_FLAGS = (WITH_TTL, SEQUENTIAL_WITH_TTL)
_GOOD_TTLS = (3_600_000, 3_600_000, 3_600_000, 90_000_000, (1 << 40) - 1)
_GOOD_ODD_PATHS = ("/ü", "/a b", "/...", "/.a", "/a\u3000", "/\U0001f600", "/%2F", "/a.b")
_FIXED = ("@/", "@/zookeeper", "@/zookeeper/config", "@/zookeeper/quota", "@/zookeeper/missing")


def digest(user: str) -> str:
    """Return the id of a digest ACL for `name:password`."""
    hashed = base64.b64encode(hashlib.sha1(user.encode()).digest()).decode()
    return f"{user.split(':', 1)[0]}:{hashed}"


class Generator:
    """Draws steps; `bursts` sends several requests of a session at once instead of one at a time.

    `plain` sends many at once, of the few kinds of which writes go ahead of reads, and some watches.

    A rough guess of which nodes exist, and at which version, makes most requests sensible; it need not be
    right.
    """

    def __init__(self, seed: int, bursts: bool = False, quotas: bool = False, plain: bool = False) -> None:
        self._random = Random(seed)
        self._quotas = quotas
        self._plain = plain
        self._bursts = bursts
        self._guess: dict[str, int] = {"": 0}
        self._ephemerals: dict[str, int] = {}
        self._slot = 0
        self._ended: set[int] = set()
        self._dropped: set[int] = set()

    def script(self, length: int) -> Script:
        """Return a script of `length` steps after all slots are opened and the first nodes made."""
        steps: Script = [Open(slot) for slot in range(SLOTS)]
        for path in ("/a", "/b", "/a/a"):
            self._guess[path] = 0
            steps.append(Call(0, (Create(path),)))
        if self._quotas:
            steps += [Call(0, (request,)) for request in _QUOTA]
        steps += [self._step() for _ in range(length)]
        return steps

    def _step(self) -> Step:
        slot = self._random.randrange(SLOTS)
        if slot in self._ended and self._random.random() < 0.9:
            self._ended.discard(slot)
            return Open(slot)
        if slot in self._dropped and self._random.random() < 0.7:
            self._dropped.discard(slot)
            return Reopen(slot)
        if self._random.random() < 0.94:
            return self._call(slot)
        return self._session_step(slot)

    def _session_step(self, slot: int) -> Step:
        kinds = ("close", "open", "drop", "steal", "wrong", "ahead", "expire")
        kind = self._random.choices(kinds, (20, 10, 30, 25, 5, 5, 3))[0]
        if kind in ("close", "expire", "open"):
            for path in [path for path, owner in self._ephemerals.items() if owner == slot]:
                self._guess.pop(path, None)
                del self._ephemerals[path]
        if kind in ("close", "expire"):
            self._ended.add(slot)
            return Close(slot) if kind == "close" else Expire(slot)
        if kind == "open":
            return Open(slot)
        if kind in ("drop", "wrong"):
            self._dropped.add(slot)
            return Drop(slot) if kind == "drop" else Reopen(slot, good_password=False)
        return Reopen(slot, ahead=kind == "ahead")

    def _call(self, slot: int) -> Call:
        self._slot = slot
        if self._plain:
            count = self._random.randrange(2, 30)
            return Call(slot, tuple(self._plain_request() for _ in range(count)))
        if self._bursts:
            count = self._random.randrange(1, 9)
            return Call(slot, tuple(self._request(auth=False) for _ in range(count)))
        return Call(slot, (self._request(auth=True),))

    def _request(self, auth: bool) -> Request:
        if self._quotas and self._random.random() < 0.2:
            looks = (GetData(_STATS), GetData(_STATS, True), Exists(_STATS))
            return self._set_limits() if self._random.random() < 0.2 else self._random.choice(looks)
        chance = self._random.random()
        if chance < 0.36:
            return self._write()
        if chance < 0.50:
            return self._multi()
        if chance < 0.84:
            return self._read()
        if chance < 0.90:
            return self._lasting()
        if chance < 0.94:
            return self._of_session()
        if chance < 0.97:
            return self._set_watches()
        # ZooKeeper answers auth packets at once, out of turn: in a burst the order would be a race.
        if not auth:
            return Ping()
        return self._auth() if self._random.random() < 0.9 else Sasl(self._data())

    def _plain_request(self) -> Request:
        if self._random.random() < 0.4:
            return self._change(self._random.choices(("create", "delete", "set"), (4, 3, 6))[0])
        path, watch = self._path(), self._random.random() < 0.1
        kind = self._random.randrange(4)
        if kind < 2:
            return (GetData, Exists)[kind](path, watch)
        return GetChildren(path, watch, kind == 3)

    def _write(self) -> Request:
        # After a setACL in a burst ZooKeeper judges by the old or the new ACL, as it happens.
        acl = 0 if self._bursts else 1
        kinds = ("create", "mortal", "delete", "set", "acl")
        kind = self._random.choices(kinds, (14, 2, 6, 12, 2 * acl))[0]
        if kind == "acl":
            return SetAcl(self._path(), self._acls(), self._version(None))
        return self._change(kind)

    def _change(self, kind: str) -> Request:
        """Return a request that may be a multi's part, and guess at what it does."""
        request = self._draw(kind)
        self._succeeds(request)
        return request

    def _draw(self, kind: str) -> Request:
        if kind == "create":
            return self._create()
        if kind == "mortal":
            return self._create_mortal()
        path = self._path(leaf=kind == "delete")
        version = self._version(path)
        if kind == "delete":
            return Delete(path, version)
        if kind == "set":
            return SetData(path, self._data(), version)
        return Check(path, version)

    def _succeeds(self, request: Request) -> bool:
        """Return whether a change may succeed, and take it into the guess if so."""
        guess = self._guess
        match request:
            case Create(str() as path, _, flags):
                parent = path.rpartition("/")[0]
                if parent not in guess or parent in self._ephemerals or not 0 <= flags <= 4:
                    return False
                if flags in (SEQUENTIAL, EPHEMERAL_SEQUENTIAL):
                    return True
                if path in guess or path in _BAD_PATHS:
                    return False
                guess[path] = 0
                if flags == EPHEMERAL:
                    self._ephemerals[path] = self._slot
            case CreateContainer(path, data, flags) | CreateTtl(path, data, _, flags):
                if isinstance(request, CreateTtl) and (flags not in _TTL_FLAGS or request.ttl <= 0):
                    return False
                sequential = flags in (SEQUENTIAL, SEQUENTIAL_WITH_TTL)
                return self._succeeds(Create(path, data, SEQUENTIAL if sequential else PERSISTENT))
            case Delete(str() as path, version):
                has_children = any(other.startswith(path + "/") for other in guess)
                if has_children or version not in (-1, guess.get(path)) or path == "":
                    return False
                self._ephemerals.pop(path, None)
                return guess.pop(path, None) is not None
            case SetData(str() as path, _, version) if path in guess:
                if version not in (-1, guess[path]):
                    return False
                guess[path] += 1
            case Check(str() as path, version):
                return path in guess and version in (-1, guess[path])
            case _:
                return False
        return True

    def _create(self) -> Create:
        flags = self._random.choices(
            (PERSISTENT, EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL, 4, 5, 6, 7, -1, 99),
            (120, 30, 24, 16, 1, 1, 1, 1, 1, 1),
        )[0]
        path = self._path() if self._random.random() < 0.2 else self._free_path()
        if flags in (SEQUENTIAL, EPHEMERAL_SEQUENTIAL) and self._random.random() < 0.8:
            path = self._random.choice(("/q", "/a/q", "/a/"))
        acls = self._acls() if self._random.random() < 0.1 else OPEN
        return Create(path, self._data(), flags, acls, self._random.random() < 0.4)

    def _create_mortal(self) -> CreateContainer | CreateTtl:
        """Return the creation of a container or TTL node, which stays for as long as any test takes."""
        path = self._path() if self._random.random() < 0.2 else self._free_path()
        acls = self._acls() if self._random.random() < 0.1 else OPEN
        if self._random.random() < 0.5:
            flags = self._random.choice((CONTAINER, CONTAINER, PERSISTENT, SEQUENTIAL, WITH_TTL, 7))
            return CreateContainer(path, self._data(), flags, acls)
        flags = self._random.choice((WITH_TTL, WITH_TTL, SEQUENTIAL_WITH_TTL, PERSISTENT, SEQUENTIAL, 7))
        # A TTL below 0 of any other mode ends the whole ZooKeeper.
        ttls = (*_GOOD_TTLS, 0, -1, 1 << 40, -(1 << 63)) if flags in _TTL_FLAGS else _GOOD_TTLS
        return CreateTtl(path, self._data(), self._random.choice(ttls), flags, acls)

    def _set_limits(self) -> SetData:
        names = ("count", "bytes", "countHardLimit", "byteHardLimit")
        limits = (f"{name}={self._random.choice((-1, 2, 5, 100, 2000))}" for name in names)
        return SetData(_LIMITS, ";".join(limits).encode())

    def _read(self) -> Request:
        watch = self._random.random() < 0.5
        path = self._random.choice(_FIXED) if self._random.random() < 0.04 else self._path()
        kind = self._random.randrange(8)
        if kind < 2 or path == "@/":
            return Exists(path, watch)
        if kind < 4:
            return GetData(path, watch)
        if kind < 6:
            return GetChildren(path, watch, self._random.random() < 0.6)
        if kind == 6:
            return GetAcl(path)
        return Sync(path)

    def _lasting(self) -> Request:
        """Return a request about watches that last, or about any watch there is."""
        path = self._path() if self._random.random() < 0.8 else self._random.choice(("@/", ""))
        kind = self._random.choices(("add", "remove", "check"), (4, 3, 2))[0]
        if kind == "add":
            return AddWatch(path, self._random.choices((0, 1, 2), (10, 10, 1))[0])
        watches = self._random.choices(range(7), (1, 4, 4, 8, 6, 6, 1))[0]
        return RemoveWatches(path, watches) if kind == "remove" else CheckWatches(path, watches)

    def _of_session(self) -> Request:
        """Return one of the reads that concern a session, many nodes or the whole server."""
        kind = self._random.randrange(6)
        if kind == 0:
            return GetEphemerals(self._random.choice((None, "", "@/", "/a", "/b/", self._path())))
        if kind == 1:
            return GetAllChildrenNumber(self._path())
        if kind == 2:
            return WhoAmI()
        if kind == 3:
            return Reconfig(None, "1")
        count = self._random.randrange(6)
        return MultiRead(
            tuple(self._random.choice((GetData, GetChildren))(self._path()) for _ in range(count))
        )

    def _multi(self) -> Multi:
        count = self._random.choices(range(11), (1, 4, 8, 8, 6, 4, 3, 2, 2, 2, 2))[0]
        before = dict(self._guess), dict(self._ephemerals)
        ops = []
        good = True
        for _ in range(count):
            op, succeeds = self._multi_op()
            ops.append(op)
            good = good and succeeds
        if not good:
            self._guess, self._ephemerals = before
        return Multi(tuple(ops))

    def _multi_op(self) -> tuple[Request, bool]:
        """Return an operation, most often one that may succeed, and whether it may."""
        tries = 5 if self._random.random() < 0.93 else 1
        while True:
            request = self._draw(
                self._random.choices(("create", "mortal", "delete", "set", "check"), (8, 1, 5, 6, 4))[0]
            )
            if self._random.random() < 0.001:
                request = GetData(self._path())
            succeeds = self._succeeds(request)
            tries -= 1
            if succeeds or not tries:
                return request, succeeds

    def _set_watches(self) -> SetWatches | SetWatches2:
        since = self._random.choices(("last", "zero", "future"), (4, 1, 1))[0]
        one_shot = self._good_paths(), self._good_paths(), self._good_paths()
        if self._random.random() < 0.4:
            return SetWatches(since, *one_shot)
        return SetWatches2(since, *one_shot, self._good_paths(), self._good_paths())

    def _good_paths(self) -> tuple[str, ...]:
        return tuple(self._good_path() for _ in range(self._random.randrange(4)))

    def _auth(self) -> AddAuth:
        scheme = self._random.choices(
            ("digest", "ip", "world", "nonsense", "", "super"), (40, 3, 1, 1, 1, 1)
        )[0]
        user = self._random.choice(_USERS).encode() if scheme == "digest" else b"127.0.0.1"
        return AddAuth(scheme, user)

    def _path(self, leaf: bool = False) -> str | None:
        """Return some path, most often of a node that may exist; `leaf`: often of one without children."""
        chance = self._random.random()
        if chance < 0.015:
            return self._random.choice(_BAD_PATHS)
        if chance < 0.03:
            return self._random.choice(_GOOD_ODD_PATHS)
        if chance < 0.8:
            known = list(self._guess)
            if leaf and self._random.random() < 0.9:
                known = [path for path in known if not any(other.startswith(path + "/") for other in known)]
            return self._random.choice(known or [""])
        return self._good_path()

    def _free_path(self) -> str:
        """Return a path that may be free, its parent most often being there."""
        for _ in range(10):
            path = self._good_path()
            if path not in self._guess and path.rpartition("/")[0] in self._guess:
                return path
        return self._good_path()

    def _good_path(self) -> str:
        if self._random.random() < 0.05:
            parent = self._random.choice(("", "/a"))
            return f"{parent}/q{self._random.randrange(8):010d}"
        depth = self._random.choices((1, 2, 3), (6, 5, 1))[0]
        return "".join("/" + self._random.choice(_NAMES[: 4 - depth]) for _ in range(depth))

    def _version(self, path: str | None) -> int:
        chance = self._random.random()
        if chance < 0.65:
            return -1
        if chance < 0.85 and path in self._guess:
            return self._guess[path]
        return self._random.choice((0, 0, 1, 1, 2, 3, -2, 2**31 - 1, -(2**31)))

    def _data(self) -> bytes | None:
        return self._random.choice((b"", b"x", b"yy", b"\0\xff" * 3, b"z" * 1000, None))

    def _acls(self) -> AclList | None:
        if self._random.random() < 0.15:
            return self._random.choice(_BAD_ACLS)
        return tuple(self._acl() for _ in range(self._random.choice((1, 1, 2, 3))))

    def _acl(self) -> tuple[int, str, str]:
        perms = self._random.choice((31, 31, 31, 1, 2, 4, 8, 16, 15, 30, 0, 32, -1))
        scheme, name = self._random.choice(
            (
                ("world", "anyone"),
                ("world", "anyone"),
                ("world", "anyone"),
                ("world", "anyone"),
                ("auth", self._random.choice(("", "ignored"))),
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
