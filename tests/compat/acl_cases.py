"""Scripts about who may do what: every scheme and permission under every operation; identities, refusals."""

from collections.abc import Sequence

from lab.oracle.requests import (
    OPEN,
    SEQUENTIAL,
    AddAuth,
    Check,
    Create,
    CreateContainer,
    CreateTtl,
    Delete,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    Ping,
    Request,
    SetAcl,
    SetData,
    SetWatches,
    Sync,
)
from tests.compat.building import AMY, BOB, ONLY_AMY, one, watched
from tests.compat.generate import digest
from tests.compat.script import Drop, Open, Reopen, Script, call

SUPER_DIGEST = digest("super:test")  # what both servers are started with
SUPER = AddAuth("digest", b"super:test")
OWNER, STRANGER, ROOT = 0, 1, 2

# ACL ids that mean, or do not mean, a client on 127.0.0.1 that is AMY
_IDS = {
    "world": ("world", "anyone"),
    "auth": ("auth", ""),
    "digest": ("digest", digest("amy:secret")),
    "digest_of_another": ("digest", digest("bob:secret")),
    "ip": ("ip", "127.0.0.1"),
    "ip_network": ("ip", "126.0.0.0/7"),
    "ip_of_another": ("ip", "127.0.0.2/32"),
    "ip_of_all": ("ip", "10.9.8.7/0"),
    "ip_6": ("ip", "::/0"),
}
_PERMISSIONS = (0, 1, 2, 4, 8, 16, 31, 31 & ~1, 31 & ~2, 31 & ~4, 31 & ~8, 31 & ~16, 1 << 5, -1)
#: For further identities: what a bit means does not depend on whom it is given to.
FEW_PERMISSIONS = (0, 1, 31 & ~1, 31)
_WITH_ALL = {"world", "auth", "digest"}
_BAD_IDS = (
    *(("world", "nobody"), ("world", ""), ("auth", "amy"), ("super", ""), ("super", "x:y"), ("sasl", "amy")),
    *(("x509", "CN=amy"), ("", ""), (" digest", "a:b"), ("digest", "a"), ("digest", "a:b:c")),
    *(
        ("ip", "1.2.3"),
        ("ip", "::1/129"),
        ("ip", "127.0.0.1/33"),
        ("ip", "localhost"),
        ("DIGEST", "a:b"),
        ("host", "a"),
    ),
)


def _attempts(path: str) -> list[Request]:
    """Every operation on a node, alone and as a multi's part; what succeeds leaves the node as it was."""
    child = path + "/c"
    return [
        Exists(path, True),
        GetData(path, True),
        GetChildren(path, True),
        GetChildren(path, with_stat=True),
        GetAcl(path),
        Sync(path),
        SetData(path, b"new"),
        Create(child),
        Exists(child, True),
        Delete(child),
        Create(child, flags=SEQUENTIAL, with_stat=True),
        Multi((Check(path),)),
        Multi((SetData(path, b"newer"), Check(path, 77))),
        Multi((Create(child), SetData(child, b"1"), Delete(child))),
        Multi((Create(path + "/d"), Create(path + "/d/e", acls=((1, "world", "anyone"),)))),
        Multi((Delete(path + "/d/e"), Delete(path + "/d"))),
        SetAcl(path, OPEN, 77),
    ]


def matrix(identity: tuple[str, str], permissions: Sequence[int] = _PERMISSIONS) -> Script:
    """One node for each set of permissions, under every operation, by its owner and by another client."""
    steps: Script = [Open(OWNER), Open(STRANGER), call(OWNER, AMY)]
    for place, perms in enumerate(permissions):
        path = f"/n{place}"
        steps += [call(OWNER, Create(path, b"old", acls=((perms, *identity),)))]
        for slot in (OWNER, STRANGER):
            steps += [call(slot, request) for request in _attempts(path)]
        steps += [call(STRANGER, SetAcl(path, OPEN)), call(OWNER, GetAcl(path)), call(OWNER, Delete(path))]
    return steps


def _super_matrix() -> Script:
    """A node for which no client has any permission, and one that is another's, under every operation."""
    steps: Script = [Open(OWNER), Open(ROOT), call(OWNER, AMY), call(ROOT, SUPER)]
    for path, acl in (("/none", (0, "world", "anyone")), ("/amys", (31, *_IDS["digest"]))):
        steps += [call(OWNER, Create(path, acls=(acl,)))]
        steps += [call(ROOT, request) for request in _attempts(path)]
        steps += [call(ROOT, GetAcl(path)), call(ROOT, SetAcl(path, ((1, "auth", ""),)))]
        steps += [call(slot, GetAcl(path)) for slot in (OWNER, ROOT)]
        steps += [call(OWNER, SetAcl(path)), call(ROOT, SetAcl(path)), call(OWNER, GetAcl(path))]
    return steps


def _super_by_turns() -> Script:
    """Super is the connection's: gone after a reconnect; a wrong password is another user."""
    locked = Create("/locked", acls=((0, "world", "anyone"),))
    return [
        *(Open(OWNER), call(OWNER, locked), call(OWNER, GetData("/locked"))),
        *(call(OWNER, AddAuth("digest", b"super:wrong")), call(OWNER, GetData("/locked"))),
        *(call(OWNER, Create("/wrong", acls=((31, "auth", ""),))), call(OWNER, GetAcl("/wrong"))),
        *(call(OWNER, SUPER), call(OWNER, GetData("/locked"))),
        *(call(OWNER, Create("/both", acls=((31, "auth", ""),))), call(OWNER, GetAcl("/both"))),
        *(Reopen(OWNER), call(OWNER, GetData("/locked")), call(OWNER, GetData("/wrong"))),
        *(call(OWNER, SUPER, GetData("/locked"), SetData("/locked", b"1")), call(OWNER, AMY)),
        *(call(OWNER, GetData("/locked")), call(OWNER, GetAcl("/wrong"))),
    ]


def _withheld() -> Script:
    """A watch's event is withheld from who may not read the node by then; from super never."""
    mine = ((31, *_IDS["digest"]),)
    steps: Script = [Open(OWNER), Open(STRANGER), Open(ROOT), call(OWNER, AMY), call(ROOT, SUPER)]
    look = (Exists("/w", True), GetChildren("", True))
    for _ in range(2):
        steps += [call(slot, request) for slot in (OWNER, STRANGER, ROOT) for request in look]
        steps += [call(OWNER, Create("/w", acls=mine))]
        steps += [call(slot, request) for slot in (OWNER, STRANGER, ROOT) for request in look]
        steps += [call(OWNER, SetData("/w", b"1")), call(OWNER, Create("/w/c")), call(OWNER, Delete("/w/c"))]
        steps += [call(OWNER, SetAcl("/w", ((30, "world", "anyone"), *mine)))]
        steps += [call(slot, GetData("/w", True)) for slot in (OWNER, STRANGER, ROOT)]
        steps += [call(OWNER, Multi((SetData("/w", b"2"), Delete("/w"))))]
    gone = [call(STRANGER, Exists("/v", True)), call(OWNER, Create("/v", acls=mine))]
    again: Script = [Reopen(STRANGER), call(STRANGER, SetWatches("last", exist=("/v",), data=("/v",)))]
    return [*steps, *gone, *again, call(OWNER, SetData("/v"))]


def _bad_ids() -> Script:
    steps: Script = [Open(OWNER), call(OWNER, AMY), call(OWNER, Create("/a"))]
    for identity in _BAD_IDS:
        for acls in (((1, *identity),), (*OPEN, (1, *identity))):
            steps += [call(OWNER, Create("/b", acls=acls)), call(OWNER, SetAcl("/a", acls))]
            steps += [call(OWNER, Multi((Create("/c", acls=acls),))), call(OWNER, Delete("/b"))]
            steps += [call(OWNER, GetAcl("/a")), call(OWNER, SetAcl("/a", OPEN))]
    return steps


def _addauth(scheme: str | None, credentials: bytes | None) -> Script:
    """An auth packet before other requests: who it makes the client, and whether what follows is heard."""
    return [
        Open(OWNER),
        call(OWNER, Create("/a")),
        call(OWNER, AddAuth(scheme, credentials), GetData("/a"), SetAcl("/a", ((31, "auth", ""),))),
        call(OWNER, GetAcl("/a")),
    ]


_ODD_IDS = (
    *(("digest", name) for name in ("", "a", ":", "a:b:c", "a:b:", ":b", "a:")),
    *(("ip", name) for name in ("", "1.2.3", "1.2.3.4", "1.2.3.4/", "1.2.3.4/0", "1.2.3.4/33", "1.2.3.4/-1")),
    *(("ip", name) for name in ("1.2.3.256", "a", "1.2.3.4/8/8", "1.2.3.4/x", " 1.2.3.4", "1.2.3.04")),
    *(("ip", name) for name in ("::1", "::1/64", "::/0", "::1/129", "1::2::3", "::ffff:1.2.3.4")),
    *((scheme, "x") for scheme in ("super", "sasl", "x509", "World", "nonsense", "")),
    ("auth", ""),
)

CASES: dict[str, Script] = {
    **{
        f"permissions_of_{name}": matrix(identity, _PERMISSIONS if name in _WITH_ALL else FEW_PERMISSIONS)
        for name, identity in _IDS.items()
    },
    "permission_to_create_others": [
        Open(0),
        *one(
            0, Create("/a", acls=((31 & ~4, "world", "anyone"),)), CreateTtl("/a/t"), CreateContainer("/a/c")
        ),
        *one(0, Create("/b", acls=((4, "world", "anyone"),)), CreateTtl("/b/t"), CreateContainer("/b/c")),
    ],
    "super": _super_matrix(),
    "super_by_turns": _super_by_turns(),
    "withheld_events": _withheld(),
    "bad_ids": _bad_ids(),
    **{
        f"addauth_{scheme}_{number}": _addauth(scheme, credentials)
        for scheme in ("digest", "ip", "world", "auth", "super", "x509", "sasl", "", None)
        for number, credentials in enumerate((b"super:test", b"", None))
    },
    "acl_refusals": [
        Open(0),
        *one(0, *(Create("/a", acls=acls) for acls in (None, (), ((31, "world", "someone"),)))),
        *one(0, *(Create("/a", acls=((31, scheme, name),)) for scheme, name in _ODD_IDS)),
        *one(0, *(SetAcl("", ((31, scheme, name),), 99) for scheme, name in _ODD_IDS)),
        *one(0, SetAcl("/missing", ()), SetAcl("/missing"), Create("/missing/a", acls=())),
        *one(0, Create("", acls=()), Create("/a//b", acls=()), Create("@a", acls=()), SetAcl("@a", ())),
        *one(0, SetAcl("/", ()), *(SetAcl("", ((perms, "world", "anyone"),), 99) for perms in (0, 64))),
    ],
    "acl_duplicates_and_auth": [
        Open(0),
        *one(0, Create("/a", acls=(*OPEN, *OPEN, (1, "world", "anyone"))), GetAcl("/a")),
        *one(0, Create("/b", acls=((31, "auth", ""),))),
        *one(0, AMY, AMY, BOB, Create("/b", acls=((31, "auth", ""), (1, "world", "anyone"))), GetAcl("/b")),
        *one(0, SetAcl("/b", ((31, "auth", "ignored"), (31, "auth", ""))), GetAcl("/b"), GetData("/b")),
        *one(0, Create("/c", acls=((31, "auth", ""), *ONLY_AMY)), GetAcl("/c"), AddAuth("ip", b"x")),
        *one(0, Create("/d", acls=((31, "auth", ""),)), GetAcl("/d")),
    ],
    "auth_packets": [
        Open(0),
        *one(0, AddAuth("world", b"anyone")),
        *one(0, AddAuth("ip", b"127.0.0.1"), AddAuth("ip", b""), AddAuth("ip", None)),
        *one(0, AddAuth("digest", b"x:y"), Ping()),
        *one(0, AddAuth("digest", b"nocolon"), Ping(), Create("/n", acls=((31, "auth", ""),)), GetAcl("/n")),
        *one(0, AddAuth("digest", b""), Create("/o", acls=((31, "auth", ""),)), GetAcl("/o")),
        Reopen(0),
        *one(0, AddAuth("digest", b":"), Create("/p", acls=((31, "auth", ""),)), GetAcl("/p")),
        Reopen(0),
        *one(0, AddAuth("digest", "ü:ö".encode()), Create("/r", acls=((31, "auth", ""),)), GetAcl("/r")),
        *one(0, AddAuth("digest", b"\xff:\xfe"), Create("/s", acls=((31, "auth", ""),)), GetAcl("/s")),
        Reopen(0),
        *one(0, AddAuth("nonsense", b"")),
        Reopen(0),
        *one(0, AddAuth("", b"")),
        Reopen(0),
        *one(0, AddAuth("auth", b"")),
        Reopen(0),
        *one(0, AddAuth("super", b"x")),
        Reopen(0),
        *one(0, AddAuth("sasl", b"x")),
        Reopen(0),
        *one(0, AddAuth("x509", b"x")),
        Reopen(0),
        *one(0, AddAuth(None, b"x")),
        Reopen(0),
        *one(0, AddAuth("digest", None)),
        Reopen(0),
        *one(0, Ping()),
    ],
    "auth_is_of_the_connection": [
        Open(0),
        *one(0, AMY, Create("/a", acls=ONLY_AMY), GetData("/a")),
        Drop(0),
        Reopen(0),
        *one(0, GetData("/a"), AMY, GetData("/a")),
    ],
    "permissions_in_multi": [
        Open(0),
        Open(1),
        *one(0, AMY, Create("/a", acls=ONLY_AMY), Create("/a/b")),
        *one(0, Create("/b", acls=((1, "world", "anyone"),))),
        *one(1, Multi((Create("/c"), Create("/a/c"))), Multi((Create("/c"), Delete("/a/b")))),
        *one(1, GetChildren("")),
        *one(1, Multi((Create("/c", acls=((1, "world", "anyone"),)), Create("/c/d")))),
        *one(1, Multi((SetData("/b"),))),
        *one(1, Multi((Create("/c"), SetData("/a"))), Multi((Check("/a"),))),
        *one(1, Multi((Check("/b"), SetData("/a/b")))),
        *one(1, AMY, Multi((Create("/c"), Create("/a/c"), Delete("/a/b"), Check("/a"))), GetChildren("/a")),
    ],
    "get_acl_hides_digests": [
        Open(0),
        Open(1),
        *one(0, Create("/a", acls=(*ONLY_AMY, (1, "world", "anyone")))),
        *one(0, Create("/b", acls=(*ONLY_AMY, (17, "world", "anyone")))),
        *one(0, Create("/c", acls=(*ONLY_AMY, (16, "world", "anyone")))),
        *one(0, Create("/d", acls=(*ONLY_AMY, (6, "world", "anyone")))),
        *one(1, GetAcl("/a"), GetAcl("/b"), GetAcl("/c"), GetAcl("/d"), AMY, GetAcl("/a"), GetAcl("/d")),
    ],
    "set_acl_stat": [
        Open(0),
        Open(1),
        *one(0, Create("/a", b"x"), SetData("/a", b"y")),
        *one(1, *watched("", "/a")),
        *one(0, SetAcl("/a"), GetData("/a"), SetAcl("/a", OPEN, 1), SetData("/a", b"z"), SetAcl("/a")),
        *one(0, GetAcl("/a")),
        *one(0, SetAcl("/a", ((1, "world", "anyone"),)), SetAcl("/a"), Multi((SetAcl("/a"),)), Exists("/a")),
    ],
}
