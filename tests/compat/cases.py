"""Hand-written scripts for what random ones rarely meet, and for every difference ever found.

Paste a shrunk script here with a name that says what it is about.
"""

from __future__ import annotations

from tests.compat.generate import digest
from tests.compat.script import (
    EPHEMERAL,
    EPHEMERAL_SEQUENTIAL,
    OPEN,
    SEQUENTIAL,
    AddAuth,
    Check,
    Close,
    Create,
    CreateContainer,
    CreateTtl,
    Delete,
    DeleteContainer,
    Drop,
    Exists,
    Expire,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    Open,
    Payload,
    Ping,
    Reopen,
    Request,
    Script,
    SetAcl,
    SetData,
    SetWatches,
    Sync,
    call,
)

AMY = AddAuth("digest", b"amy:secret")
BOB = AddAuth("digest", b"bob:x:y")
ONLY_AMY = ((31, "digest", digest("amy:secret")),)
BIG = 2**31 - 1


def _watched(*paths: str) -> list[Request]:
    """Return reads that leave every kind of one-shot watch on the paths."""
    reads: list[Request] = []
    for path in paths:
        reads += [Exists(path, True), GetData(path, True), GetChildren(path, True)]
    return reads


def _one(slot: int, *requests: Request) -> Script:
    """Return one step for each request."""
    return [call(slot, request) for request in requests]


def _state(slot: int, *paths: str) -> Script:
    """Return steps that read everything about the paths."""
    steps: Script = []
    for path in paths:
        steps += _one(slot, GetData(path), GetChildren(path, with_stat=True), GetAcl(path))
    return steps


def _with_stats(quota: str, *requests: Request) -> Script:
    """Return one step for each request, and what the quota's stats say after it."""
    stats = f"~{quota}/zookeeper_stats"
    return _one(0, *(step for request in requests for step in (request, GetData(stats))))


def _multi_script(
    *ops: Request, before: tuple[Request, ...] = (), look: tuple[str, ...] = ("", "/a")
) -> Script:
    """Return a script with one multi, watched from another session, and the state before and after."""
    return [
        Open(0),
        Open(1),
        *_one(0, *before),
        *_one(1, *_watched("", "/a", "/a/b", "/b")),
        call(0, Multi(ops)),
        *_state(0, *look),
        *_one(1, *_watched("", "/a", "/a/b", "/b")),
    ]


def _failing_at(place: int) -> Script:
    ops: list[Request] = [
        Create("/a", b"1"),
        SetData("/a", b"2"),
        Create("/a/b", with_stat=True),
        Check("/a", 1),
        Delete("/a/b"),
    ]
    ops.insert(place, Check("/missing"))
    return _multi_script(*ops)


def _paths_script(*paths: str | None) -> Script:
    steps: Script = [Open(0), *_one(0, Create("/a"))]
    for path in paths:
        steps += _one(
            0,
            Exists(path),
            Exists(path, True),
            GetData(path),
            GetChildren(path),
            GetChildren(path, with_stat=True),
            GetAcl(path),
            Sync(path),
            SetData(path, b"x"),
            SetAcl(path),
            Delete(path, 77),
            Multi((Check(path),)),
            Multi((Delete(path, 77),)),
            Multi((SetData(path, b"x", 77),)),
        )
        for flags in (0, EPHEMERAL, SEQUENTIAL):
            steps += _one(0, Create(path, flags=flags), Create(path, flags=flags, with_stat=True))
            steps += _one(0, Multi((Create(path, flags=flags),)))
    return [*steps, *_state(0, "", "/a")]


CASES: dict[str, Script] = {
    "create_delete_create_in_multi": _multi_script(
        Create("/a", b"1"), Delete("/a"), Create("/a", b"2", with_stat=True)
    ),
    "create_and_delete_in_multi": _multi_script(Create("/a"), Delete("/a")),
    "delete_and_create_in_multi": _multi_script(
        Delete("/a"),
        Create("/a", b"new", with_stat=True),
        before=(Create("/a", b"old"), SetData("/a", b"older")),
    ),
    "set_twice_in_multi": _multi_script(SetData("/a", b"1"), SetData("/a", b"2"), before=(Create("/a"),)),
    "set_then_delete_in_multi": _multi_script(SetData("/a", b"1"), Delete("/a"), before=(Create("/a"),)),
    "create_then_set_in_multi": _multi_script(Create("/a"), SetData("/a", b"1", 0), Check("/a", 1)),
    "create_parent_and_child_in_multi": _multi_script(
        Create("/a"),
        Create("/a/b", with_stat=True),
        Create("/a/b/c", with_stat=True),
        look=("", "/a", "/a/b", "/a/b/c"),
    ),
    "delete_child_and_parent_in_multi": _multi_script(
        Delete("/a/b"), Delete("/a"), before=(Create("/a"), Create("/a/b"))
    ),
    "delete_parent_and_child_in_multi": _multi_script(
        Delete("/a"), Delete("/a/b"), before=(Create("/a"), Create("/a/b")), look=("", "/a", "/a/b")
    ),
    "delete_parent_recreate_with_children_in_multi": _multi_script(
        Delete("/a/b"),
        Delete("/a"),
        Create("/a", b"again"),
        Create("/a/q", flags=SEQUENTIAL, with_stat=True),
        before=(Create("/a"), Create("/a/b"), Create("/a/q", flags=SEQUENTIAL)),
        look=("", "/a", "/a/q0000000000"),
    ),
    "sequential_creates_in_multi": _multi_script(
        *(Create("/a/q", flags=SEQUENTIAL, with_stat=place % 2 == 0) for place in range(6)),
        Create("/a/", flags=EPHEMERAL_SEQUENTIAL),
        Delete("/a/q0000000003"),
        Create("/a/q", flags=SEQUENTIAL),
        before=(Create("/a"),),
    ),
    "check_around_writes_in_multi": _multi_script(
        Check("/a", 0),
        SetData("/a", b"1", 0),
        Check("/a", 1),
        Check("/a"),
        SetData("/a", b"2", 0),
        before=(Create("/a"),),
    ),
    "check_of_deleted_in_multi": _multi_script(Delete("/a"), Check("/a"), before=(Create("/a"),)),
    "clickhouse_deduplication": _multi_script(
        Create("/a/block", b"1"),
        Delete("/a/block"),
        Create("/a/log-", b"entry", flags=SEQUENTIAL),
        Create("/a/block", b"2"),
        Create("/a/block", b"3"),
        before=(Create("/a"),),
        look=("", "/a", "/a/block"),
    ),
    "empty_multi": [Open(0), *_one(0, Multi(), Multi(), Create("/a"))],
    "multi_of_checks": _multi_script(Check(""), Check("/a", 0), Check("/a"), before=(Create("/a"),)),
    "multi_with_reads": _multi_script(Create("/a"), GetData("/a"), Create("/b")),
    "multi_of_reads": _multi_script(GetData(""), Exists(""), GetChildren("")),
    **{
        f"multi_with_flags_{flags}": _multi_script(Create("/a"), Create("/b", flags=flags))
        for flags in (-1, 5, 6, 7)
    },
    "multi_with_container": _multi_script(Create("/a", flags=4), Create("/a/b"), look=("", "/a", "/a/b")),
    "multi_with_sync": _multi_script(Create("/a"), Sync("/a")),
    "multi_with_bad_path": _multi_script(Create("/a"), Create("/a//b")),
    "multi_with_null_path": _multi_script(Create("/a"), Delete(None)),
    "multi_with_flags_after_a_failure": _multi_script(Check("/missing"), Create("/b", flags=6)),
    "multi_with_null_acl": _multi_script(Check("/missing"), Create("/b", acls=None)),
    "multi_with_bad_acl": _multi_script(Create("/a"), Create("/b", acls=())),
    "multi_with_nested_multi": _multi_script(Create("/a"), Multi((Create("/b"),))),
    "multi_not_empty": _multi_script(Create("/a"), Create("/a/b"), Delete("/a")),
    "multi_under_ephemeral": _multi_script(Create("/a", flags=EPHEMERAL), Create("/a/b")),
    "multi_replaces_ephemeral": _multi_script(
        Delete("/a"),
        Create("/a"),
        Create("/a/b"),
        before=(Create("/a", flags=EPHEMERAL),),
        look=("", "/a", "/a/b"),
    ),
    "not_empty": [
        Open(0),
        *_one(0, Create("/a"), Create("/a/b"), Delete("/a"), Delete("/a", 5), Delete("/a/b"), Delete("/a")),
    ],
    "no_children_for_ephemerals": [
        Open(0),
        *_one(0, Create("/a", flags=EPHEMERAL), Create("/a/b"), Create("/a/b", flags=SEQUENTIAL)),
        *_one(
            0,
            Create("/a/", flags=SEQUENTIAL),
            Create("/a/b/c"),
            Create("/a//b"),
            Create("/a", flags=EPHEMERAL),
        ),
        *_state(0, "", "/a"),
        Close(0),
        Open(0),
        *_state(0, "", "/a"),
    ],
    "root": [
        Open(0),
        *_one(0, Exists("@/", True), GetData("@/"), GetAcl("@/"), Sync("@/"), Delete("@/"), Delete("@/", 3)),
        *_one(
            0, Create("@/"), Create("@/", flags=EPHEMERAL), SetData("@/", b"x", 99), Multi((Check("@/", 99),))
        ),
        *_one(0, SetAcl("@/", OPEN, 99), Multi((Delete("@/"),)), Multi((Create("@/"),))),
    ],
    "root_data": [
        Open(0),
        Open(1),
        *_one(1, GetData("@/", True)),
        *_one(0, SetData("@/", b"x"), GetData("@/"), SetData("@/", b""), GetData("@/"), Exists("@/")),
        *_one(0, SetAcl("@/", OPEN), GetAcl("@/"), Exists("@/")),
    ],
    "sequential_below_root": [
        Open(0),
        *_one(
            0,
            Create("@/q-", flags=SEQUENTIAL),
            Create("@/q-", flags=EPHEMERAL_SEQUENTIAL),
            Create("@/", flags=SEQUENTIAL),
        ),
        *_one(0, Create("@/", flags=EPHEMERAL_SEQUENTIAL, with_stat=True), GetChildren("@/", with_stat=True)),
        Close(0),
        Open(0),
        *_one(0, GetChildren("@/", with_stat=True)),
    ],
    "fixed_nodes": [
        Open(0),
        *_state(0, "@/zookeeper", "@/zookeeper/quota", "@/zookeeper/config"),
        *_one(0, Delete("@/zookeeper"), Delete("@/zookeeper/quota"), Delete("@/zookeeper/config")),
        *_one(0, Delete("@/zookeeper/quota", 7), Delete("@/zookeeper/missing"), Create("@/zookeeper")),
        *_one(
            0,
            SetData("@/zookeeper/config", b"x"),
            SetAcl("@/zookeeper/config"),
            Multi((Delete("@/zookeeper"),)),
        ),
        *_one(
            0,
            Create("@/zookeeper/config/x"),
            Exists("@/zookeeper/config/x"),
            Multi((Check("@/zookeeper/config"),)),
        ),
    ],
    "children_of_fixed_nodes": [
        Open(0),
        Open(1),
        *_one(1, *_watched("@/zookeeper", "@/zookeeper/quota")),
        *_one(0, Create("@/zookeeper/x", b"1"), Create("@/zookeeper/quota/y", flags=EPHEMERAL)),
        *_one(
            0, SetData("@/zookeeper", b"d"), SetData("@/zookeeper/quota", b"d"), SetData("@/zookeeper", b"")
        ),
        *_state(0, "@/zookeeper", "@/zookeeper/quota", "@/zookeeper/x"),
        *_one(0, Delete("@/zookeeper/x"), Create("@/zookeeper/s", flags=SEQUENTIAL)),
        Close(0),
        Open(0),
        *_state(0, "@/zookeeper", "@/zookeeper/quota"),
    ],
    "containers": [
        Open(0),
        Open(1),
        *_one(1, *_watched("", "/c", "/f")),
        *_one(0, CreateContainer("/c", b"data"), CreateContainer("/c"), *_watched("/c")),
        *_one(0, *(CreateContainer("/f", flags=flags) for flags in (0, 1, 2, 3, 4, 5, 6, 7, -1))),
        *_one(0, Create("/c/x"), Create("/c/e", flags=EPHEMERAL), CreateContainer("/c/d"), Create("/f/x")),
        *_one(0, Create("/c/s", flags=SEQUENTIAL), CreateContainer("/c/e/x")),
        *_one(0, CreateContainer(None), CreateContainer("/bad", acls=None), CreateContainer("/bad", acls=())),
        *_one(0, SetData("/c", b"other"), SetAcl("/c", OPEN), Delete("/c"), Delete("/f/x"), Delete("/f")),
        *_state(1, "", "/c", "/c/d", "/f"),
        Close(0),
        *_state(1, "", "/c"),
    ],
    "ttl_nodes": [
        Open(0),
        *_one(0, CreateTtl("/t", b"data"), CreateTtl("/t"), *_watched("/t"), CreateTtl("/t/x", flags=6)),
        *_one(0, *(CreateTtl("/x", ttl=ttl) for ttl in (0, -1, -(2**63), 2**40, 2**63 - 1))),
        *_one(0, *(CreateTtl("/l", ttl=ttl, flags=6) for ttl in (3_600_000, 2**40 - 1))),
        *_one(0, *(CreateTtl("/f", ttl=5, flags=flags) for flags in (0, 1, 2, 3, 4, 7, -1))),
        *_one(0, CreateTtl(None), CreateTtl(None, ttl=0), CreateTtl("/bad", acls=None)),
        *_one(0, Create("/t/e", flags=EPHEMERAL), CreateTtl("/t/e/x"), Delete("/t")),
        *_state(0, "", "/t", "/t/x0000000000"),
    ],
    "mortal_nodes_in_multi": [
        Open(0),
        Open(1),
        *_one(1, *_watched("", "/c", "/t")),
        *_one(
            0,
            Multi((CreateContainer("/c"), CreateTtl("/t"), Create("/c/x"), CreateContainer("/c/y"))),
            Multi((CreateTtl("/s", flags=6), CreateContainer("/s", flags=2), Delete("/c/y"))),
            *(Multi((CreateContainer("/f", flags=flags),)) for flags in (0, 1, 2, 3, 5, 6, 7, -1)),
            *(Multi((CreateTtl("/g", flags=flags),)) for flags in (0, 1, 2, 3, 4, 7, -1)),
            *(Multi((CreateTtl("/h", ttl=ttl),)) for ttl in (0, -1, 2**40)),
            Multi((CreateTtl("/i", flags=0, acls=None),)),
            Multi((CreateTtl("/i", acls=None),)),
            Multi((CreateContainer("/i", acls=None),)),
            Multi((CreateTtl(None),)),
            Multi((CreateContainer(None),)),
            Multi((CreateContainer("/i"), Check("/missing"))),
            Multi((DeleteContainer("/c/x"),)),
        ),
        *_state(1, "", "/c", "/t"),
    ],
    "delete_container": [
        Open(0),
        Open(1),
        *_one(0, CreateContainer("/c"), Create("/c/x"), CreateTtl("/t"), Create("/p"), Create("/p/x")),
        *_one(0, Create("/e", flags=EPHEMERAL), CreateContainer("/n"), *_watched("/e")),
        *_one(1, *_watched("", "/c", "/t", "/p")),
        *_one(
            0,
            *(DeleteContainer(path) for path in ("/c", "/c/x", "/c", "/c", "/t", "/p", "/p/x", "/e", "/n")),
            *(DeleteContainer(path) for path in (None, "@/", "@/zookeeper", "@", "@nope", "/p\0", "/p/")),
        ),
        *_state(1, "", "/p"),
    ],
    # The same with hard limits enforced or not: see test_switches.
    "quotas": [
        Open(0),
        Open(1),
        *_one(0, Create("/a", b"12345"), Create("/a/b", b"123"), Create("~"), Create("~/a")),
        *_one(0, Create("~/a/zookeeper_limits", b"count=3,bytes=20=;byteHardLimit=25;countHardLimit=4")),
        *_one(0, Create("/a/early", b"1"), Create("~/a/zookeeper_stats", b"count=0,bytes=0", with_stat=True)),
        *_one(1, *_watched("~/a/zookeeper_stats"), Exists("~/a/zookeeper_stats")),
        *_with_stats(
            "/a",
            Create("/a/c", b"1"),
            Create("/a/d"),  # beyond the count
            Create("/a/d/e"),
            Create("/a/b"),
            Create("/a/e/f"),
            Create("/a/x", acls=None),
            SetData("/a", b"x" * 12, 9),
            SetData("/a", b"x" * 40, 9),
            SetData("/a/missing", b"x" * 40),
            SetData("/a", b"x" * 12),
            SetData("/a", b"x" * 40),
            SetData("/a", None),
            Multi((Delete("/a/c"), Create("/a/c2"))),
            Delete("/a/early"),
            Create("/a/eph", flags=EPHEMERAL),
            CreateContainer("/a/con"),
            CreateTtl("/a/ttl"),
            SetData("~/a/zookeeper_limits", b"countHardLimit=8"),
            Multi(tuple(Create(f"/a/m{place}") for place in range(9))),
            Create("/a/more"),
            Create("/ab"),
            Multi((Check("/a"), Create("/a/more"))),
            SetData("~/a/zookeeper_limits", b"garbage"),
            Create("/a/g", b"1234"),
            SetData("/a", b"1"),
            Multi((SetData("/a", b"2"),)),
            SetData("~/a/zookeeper_limits", None),
            SetData("/a", b"3"),
            SetData("~/a/zookeeper_limits", b""),
            SetData("/a", b"12345"),
            SetData("~/a/zookeeper_limits", b"byteHardLimit=0"),
            SetData("/a", b"123456"),
            SetData("/a", b"1234"),
            SetData("/a", b"54321"),
            Create("/a/empty"),
            SetAcl("~/a/zookeeper_stats", OPEN),
            Delete("/a/empty"),
        ),
        call(
            0, Create("/a/p"), GetData("~/a/zookeeper_stats"), Delete("/a/p"), GetData("~/a/zookeeper_stats")
        ),
        *_one(0, Delete("~/a/zookeeper_stats"), Create("/a/unseen", b"12")),
        *_one(0, Create("~/a/zookeeper_stats", b"anything"), GetData("~/a/zookeeper_stats")),
        *_one(0, Delete("~/a/zookeeper_limits"), GetData("~/a/zookeeper_stats"), Create("/a/free", b"12345")),
        *_one(0, Delete("~/a/zookeeper_stats"), Delete("~/a"), Create("/a/freer", b"12345")),
    ],
    "quotas_of_what_is_not_there": [
        Open(0),
        *_one(0, Create("~"), Create("~/n"), Create("~/n/zookeeper_limits", b"count=1")),
        *_one(0, Create("~/n/zookeeper_stats", b"x")),
        *_with_stats("/n", Create("/n", b"data"), Create("/n/x"), Delete("/n/x"), Delete("/n")),
    ],
    "bad_paths": _paths_script(
        "@", "@a", "@a/b", "/", "/a/", "//", "/a//b", "/.", "/..", "/./a", "/a/.", "/a/../b", None
    ),
    "odd_characters": _paths_script(
        "/\0",
        "/a\0",
        "/\x01",
        "/\x1f",
        "/\x7f",
        "/\x9f",
        "/\xa0",
        "/ ",
        "/...",
        "/.a",
        "/ü",
        "/\u3000",
        "/\U0001f600",
    ),
    "more_odd_characters": _paths_script(
        "/\ud800", "/\uf8ff", "/\uefff", "/\ufff0", "/\uffef", "/\uffff", "/\n", "/%", "/a\\b"
    ),
    "sequential_with_trailing_slash": [
        Open(0),
        *_one(
            0,
            Create("/a"),
            Create("/a/", flags=SEQUENTIAL),
            Create("/a/", flags=EPHEMERAL_SEQUENTIAL, with_stat=True),
        ),
        *_one(
            0,
            Create("/", flags=SEQUENTIAL),
            Create("/missing/", flags=SEQUENTIAL),
            Create("//", flags=SEQUENTIAL),
        ),
        *_one(
            0,
            Create("/a/.", flags=SEQUENTIAL),
            Create("/a/..", flags=SEQUENTIAL),
            Create("@q", flags=SEQUENTIAL),
        ),
        *_state(0, "", "/a"),
    ],
    "sequence_counts_creates": [
        Open(0),
        *_one(
            0, Create("/a"), Create("/a/x"), Delete("/a/x"), Create("/a/q", flags=SEQUENTIAL), Create("/a/x")
        ),
        *_one(
            0,
            Create("/a/q", flags=SEQUENTIAL),
            Delete("/a/x"),
            Create("/a/q0000000004"),
            Create("/a/q", flags=SEQUENTIAL),
        ),
        *_one(0, Create("/a/q", flags=SEQUENTIAL)),
        *_state(0, "/a"),
        *_one(
            0, Create("/a/q0000000006"), Create("/a/q", flags=SEQUENTIAL), Create("/a/q", flags=SEQUENTIAL)
        ),
        *_state(0, "/a"),
    ],
    "versions": [
        Open(0),
        *_one(0, Create("/a"), SetData("/a", b"1", 0), SetData("/a", b"2", 0), SetData("/a", b"3", -2)),
        *_one(
            0,
            SetData("/a", b"4", BIG),
            SetData("/a", b"5", -(2**31)),
            SetData("/a", b"6", 1),
            SetData("/a", b"7", -1),
        ),
        *_one(
            0,
            SetAcl("/a", OPEN, 1),
            SetAcl("/a", OPEN, 0),
            SetAcl("/a", OPEN, 0),
            SetAcl("/a", OPEN, -2),
            SetAcl("/a"),
        ),
        *_one(
            0,
            Multi((Check("/a", 3),)),
            Multi((Check("/a", 2),)),
            Multi((Check("/a", -2),)),
            Multi((Check("/a", BIG),)),
        ),
        *_one(0, Delete("/a", 0), Delete("/a", -2), Delete("/a", BIG), Delete("/a", 3)),
    ],
    "null_and_empty_data": [
        Open(0),
        *_one(
            0,
            Create("/a", None),
            GetData("/a"),
            SetData("/a", b""),
            GetData("/a"),
            SetData("/a", None),
            GetData("/a"),
        ),
        *_one(
            0,
            Create("/b", None, with_stat=True),
            Multi((Create("/c", None), SetData("/b", None))),
            GetData("/c"),
        ),
        *_one(0, Create("/d", b""), GetData("/d"), GetData("/b")),
    ],
    "flags": [
        Open(0),
        *_one(
            0,
            *(Create(f"/f{flags + 9}", flags=flags) for flags in (-9, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 99)),
        ),
        *_one(
            0,
            *(Create(f"/g{flags}", flags=flags, with_stat=True) for flags in range(8)),
            Create("/x", flags=BIG),
        ),
        *_one(
            0,
            GetChildren(""),
            Exists("/f13"),
            Create("/f13/a"),
            Exists("/f13"),
            Exists("/g4"),
            Create("/g4/a"),
        ),
    ],
    "flags_before_null_paths": [
        Open(0),
        *_one(
            0, *(Create(None, flags=flags) for flags in range(-1, 8)), Create(None, flags=5, with_stat=True)
        ),
        *_one(
            0,
            *(Create("@", flags=flags) for flags in range(-1, 8)),
            Create(None, acls=None),
            Create(None, flags=7, acls=()),
        ),
    ],
    "acl_refusals": [
        Open(0),
        *_one(
            0, *(Create("/a", acls=acls) for acls in (None, (), ((31, "world", "someone"),), ((31, "", ""),)))
        ),
        *_one(
            0,
            *(
                Create("/a", acls=((31, "digest", name),))
                for name in ("", "a", ":", "a:b:c", "a:b:", ":b", "a:")
            ),
        ),
        *_one(
            0,
            *(
                SetAcl("", ((31, "digest", name),), 99)
                for name in ("", "a", ":", "a:b:c", "a:b:", ":b", "a:")
            ),
        ),
        *_one(
            0,
            *(
                SetAcl("", ((31, "ip", name),), 99)
                for name in ("", "1.2.3", "1.2.3.4", "1.2.3.4/", "1.2.3.4/0")
            ),
        ),
        *_one(
            0,
            *(
                SetAcl("", ((31, "ip", name),), 99)
                for name in ("1.2.3.4/33", "1.2.3.4/-1", "1.2.3.256", "::1", "a")
            ),
        ),
        *_one(
            0,
            *(
                SetAcl("", ((31, "ip", name),), 99)
                for name in ("1.2.3.4/8/8", "1.2.3.4/x", " 1.2.3.4", "1.2.3.04")
            ),
        ),
        *_one(
            0,
            *(
                SetAcl("", ((31, "ip", name),), 99)
                for name in ("::1/64", "::/0", "::1/129", "1::2::3", "::ffff:1.2.3.4")
            ),
        ),
        *_one(
            0,
            *(
                SetAcl("", ((31, scheme, "x"),), 99)
                for scheme in ("super", "sasl", "x509", "World", "nonsense")
            ),
        ),
        *_one(
            0,
            SetAcl("", ((31, "auth", ""),), 99),
            SetAcl("/missing", ()),
            SetAcl("/missing"),
            Create("/missing/a", acls=()),
        ),
        *_one(
            0,
            Create("", acls=()),
            Create("/a//b", acls=()),
            Create("@a", acls=()),
            SetAcl("@a", ()),
            SetAcl("/", ()),
        ),
        *_one(0, SetAcl("", ((0, "world", "anyone"),), 99), SetAcl("", ((64, "world", "anyone"),), 99)),
    ],
    "acl_duplicates_and_auth": [
        Open(0),
        *_one(0, Create("/a", acls=(*OPEN, *OPEN, (1, "world", "anyone"))), GetAcl("/a")),
        *_one(0, Create("/b", acls=((31, "auth", ""),))),
        *_one(0, AMY, AMY, BOB, Create("/b", acls=((31, "auth", ""), (1, "world", "anyone"))), GetAcl("/b")),
        *_one(0, SetAcl("/b", ((31, "auth", "ignored"), (31, "auth", ""))), GetAcl("/b"), GetData("/b")),
        *_one(0, Create("/c", acls=((31, "auth", ""), *ONLY_AMY)), GetAcl("/c"), AddAuth("ip", b"x")),
        *_one(0, Create("/d", acls=((31, "auth", ""),)), GetAcl("/d")),
    ],
    "auth_packets": [
        Open(0),
        *_one(0, AddAuth("world", b"anyone")),
        *_one(
            0,
            AddAuth("ip", b"127.0.0.1"),
            AddAuth("ip", b""),
            AddAuth("ip", None),
            AddAuth("digest", b"x:y"),
            Ping(),
        ),
        *_one(0, AddAuth("digest", b"nocolon"), Ping(), Create("/n", acls=((31, "auth", ""),)), GetAcl("/n")),
        *_one(0, AddAuth("digest", b""), Create("/o", acls=((31, "auth", ""),)), GetAcl("/o")),
        Reopen(0),
        *_one(0, AddAuth("digest", b":"), Create("/p", acls=((31, "auth", ""),)), GetAcl("/p")),
        Reopen(0),
        *_one(0, AddAuth("digest", "ü:ö".encode()), Create("/r", acls=((31, "auth", ""),)), GetAcl("/r")),
        *_one(0, AddAuth("digest", b"\xff:\xfe"), Create("/s", acls=((31, "auth", ""),)), GetAcl("/s")),
        Reopen(0),
        *_one(0, AddAuth("nonsense", b"")),
        Reopen(0),
        *_one(0, AddAuth("", b"")),
        Reopen(0),
        *_one(0, AddAuth("auth", b"")),
        Reopen(0),
        *_one(0, AddAuth("super", b"x")),
        Reopen(0),
        *_one(0, AddAuth("sasl", b"x")),
        Reopen(0),
        *_one(0, AddAuth("x509", b"x")),
        Reopen(0),
        *_one(0, AddAuth(None, b"x")),
        Reopen(0),
        *_one(0, AddAuth("digest", None)),
        Reopen(0),
        *_one(0, Ping()),
    ],
    "auth_is_of_the_connection": [
        Open(0),
        *_one(0, AMY, Create("/a", acls=ONLY_AMY), GetData("/a")),
        Drop(0),
        Reopen(0),
        *_one(0, GetData("/a"), AMY, GetData("/a")),
    ],
    "permissions": [
        Open(0),
        Open(1),
        *_one(0, AMY),
        *(
            step
            for perms in (0, 1, 2, 4, 8, 16, 3, 17)
            for step in [
                *_one(0, Create(f"/p{perms}", b"x", acls=((perms, "world", "anyone"), *ONLY_AMY))),
                *_one(0, Create(f"/p{perms}/a"), Create(f"/p{perms}/b")),
                *_one(
                    1,
                    Exists(f"/p{perms}"),
                    GetData(f"/p{perms}"),
                    GetChildren(f"/p{perms}"),
                    GetAcl(f"/p{perms}"),
                ),
                *_one(
                    1,
                    GetChildren(f"/p{perms}", with_stat=True),
                    SetData(f"/p{perms}"),
                    Create(f"/p{perms}/c"),
                ),
                *_one(
                    1,
                    Delete(f"/p{perms}/a"),
                    Delete(f"/p{perms}/missing"),
                    Create(f"/p{perms}/b"),
                    Sync(f"/p{perms}"),
                ),
                *_one(
                    1,
                    Multi((Check(f"/p{perms}"),)),
                    Multi((SetData(f"/p{perms}", b"y"),)),
                    Exists(f"/p{perms}/a"),
                ),
                *_one(
                    1,
                    SetData(f"/p{perms}", b"z", 77),
                    SetAcl(f"/p{perms}", OPEN, 77),
                    SetAcl(f"/p{perms}", OPEN),
                ),
            ]
        ),
    ],
    "permissions_in_multi": [
        Open(0),
        Open(1),
        *_one(
            0, AMY, Create("/a", acls=ONLY_AMY), Create("/a/b"), Create("/b", acls=((1, "world", "anyone"),))
        ),
        *_one(
            1, Multi((Create("/c"), Create("/a/c"))), Multi((Create("/c"), Delete("/a/b"))), GetChildren("")
        ),
        *_one(
            1, Multi((Create("/c", acls=((1, "world", "anyone"),)), Create("/c/d"))), Multi((SetData("/b"),))
        ),
        *_one(
            1,
            Multi((Create("/c"), SetData("/a"))),
            Multi((Check("/a"),)),
            Multi((Check("/b"), SetData("/a/b"))),
        ),
        *_one(1, AMY, Multi((Create("/c"), Create("/a/c"), Delete("/a/b"), Check("/a"))), GetChildren("/a")),
    ],
    "get_acl_hides_digests": [
        Open(0),
        Open(1),
        *_one(
            0,
            Create("/a", acls=(*ONLY_AMY, (1, "world", "anyone"))),
            Create("/b", acls=(*ONLY_AMY, (17, "world", "anyone"))),
        ),
        *_one(
            0,
            Create("/c", acls=(*ONLY_AMY, (16, "world", "anyone"))),
            Create("/d", acls=(*ONLY_AMY, (6, "world", "anyone"))),
        ),
        *_one(1, GetAcl("/a"), GetAcl("/b"), GetAcl("/c"), GetAcl("/d"), AMY, GetAcl("/a"), GetAcl("/d")),
    ],
    "ip_acls": [
        Open(0),
        *(
            step
            for place, name in enumerate(
                ("127.0.0.1", "127.0.0.2", "127.0.0.0/8", "10.0.0.0/8", "0.0.0.0/0", "127.0.0.2/31")
            )
            for step in _one(
                0,
                Create(f"/i{place}", acls=((31, "ip", name),)),
                GetData(f"/i{place}"),
                Create(f"/i{place}/x"),
            )
        ),
    ],
    "set_acl_stat": [
        Open(0),
        Open(1),
        *_one(0, Create("/a", b"x"), SetData("/a", b"y")),
        *_one(1, *_watched("", "/a")),
        *_one(
            0,
            SetAcl("/a"),
            GetData("/a"),
            SetAcl("/a", OPEN, 1),
            SetData("/a", b"z"),
            SetAcl("/a"),
            GetAcl("/a"),
        ),
        *_one(0, SetAcl("/a", ((1, "world", "anyone"),)), SetAcl("/a"), Multi((SetAcl("/a"),)), Exists("/a")),
    ],
    "watches_of_every_kind": [
        Open(0),
        Open(1),
        *_one(1, *_watched("", "/a", "/a/b")),
        *_one(0, Create("/a", b"x")),
        *_one(1, *_watched("", "/a", "/a/b")),
        *_one(0, Create("/a/b")),
        *_one(1, *_watched("", "/a", "/a/b")),
        *_one(0, SetData("/a", b"y"), SetData("/a/b", b"z"), SetData("/a", b"1")),
        *_one(1, *_watched("", "/a", "/a/b")),
        *_one(0, SetAcl("/a"), Delete("/a/b"), Delete("/a"), Create("/a")),
    ],
    "own_watches": [
        Open(0),
        *_one(0, *_watched("", "/a"), Create("/a"), *_watched("", "/a"), SetData("/a"), Delete("/a")),
    ],
    "one_node_watched_as_data_and_child": [
        Open(0),
        Open(1),
        *_one(0, Create("/a")),
        *_one(1, GetData("/a", True), GetChildren("/a", True), GetData("/a", True), Exists("/a", True)),
        *_one(0, Delete("/a"), Create("/a"), Delete("/a")),
        *_one(1, GetData("/a", True), GetChildren("/a", True), Exists("/a", True)),
        *_one(0, Create("/a"), Create("/a/b")),
    ],
    "failed_reads_and_watches": [
        Open(0),
        Open(1),
        *_one(0, AMY, Create("/a", acls=ONLY_AMY)),
        *_one(
            1,
            GetData("/b", True),
            GetChildren("/b", True),
            GetChildren("/b", True, True),
            GetData("/a", True),
        ),
        *_one(
            1,
            Exists("/a", True),
            GetChildren("/a", True),
            Exists("@", True),
            Exists("@b", True),
            Exists("/b//c", True),
        ),
        *_one(0, Create("/b"), SetData("/a"), Create("/a/c"), Delete("/a/c"), Delete("/a")),
    ],
    "events_of_unreadable_nodes": [
        Open(0),
        Open(1),
        *_one(0, AMY),
        *_one(1, Exists("/a", True), GetChildren("", True)),
        *_one(0, Create("/a", acls=ONLY_AMY)),
        *_one(0, SetAcl("/a"), Create("/a/b")),
        *_one(1, *_watched("/a", "/a/b")),
        *_one(0, SetAcl("/a", ONLY_AMY), SetData("/a", b"x"), Create("/a/c"), SetData("/a/b"), SetAcl("/a")),
        *_one(0, SetData("/a", b"y"), Create("/a/d")),
        *_one(1, *_watched("/a", "/a/b")),
        *_one(
            0,
            SetAcl("/a", ONLY_AMY),
            Delete("/a/b"),
            Delete("/a/c"),
            Delete("/a/d"),
            Delete("/a"),
            Create("/a"),
        ),
    ],
    "multi_that_hides_then_changes": [
        Open(0),
        Open(1),
        *_one(0, AMY, Create("/a")),
        *_one(1, *_watched("/a")),
        *_one(0, Multi((Delete("/a"), Create("/a", acls=ONLY_AMY), SetData("/a")))),
        *_one(1, *_watched("/a")),
    ],
    "set_watches": [
        Open(0),
        Open(1),
        *_one(0, Create("/a"), Create("/b"), Create("/c"), Create("/d")),
        *_one(1, Exists("/a")),
        Drop(1),
        *_one(0, SetData("/a"), Create("/a/x"), Delete("/b"), SetAcl("/c"), Create("/e")),
        Reopen(1),
        *_one(
            1,
            SetWatches(
                "last",
                ("/a", "/b", "/c", "/missing"),
                ("/a", "/b", "/e", "/missing"),
                ("/a", "/b", "/d", "/missing"),
            ),
        ),
        *_one(
            0, SetData("/c"), SetData("/a"), Create("/d/x"), Create("/missing"), Create("/b"), Delete("/e")
        ),
        *_one(
            1,
            SetWatches("zero", ("/a",), ("/b",), ("/c",)),
            SetWatches("future", ("/a", "@"), ("/zz",), ("/c",)),
        ),
        *_one(0, SetData("/a"), Create("/zz"), Create("/c/x")),
        *_one(1, SetWatches("last"), SetWatches("zero", ("@a", "@"), ("@/", "@x"), ("/a//b",))),
    ],
    "set_watches_on_unreadable_nodes": [
        Open(0),
        Open(1),
        *_one(0, AMY, Create("/a", acls=ONLY_AMY), Create("/b")),
        *_one(
            1,
            SetWatches("zero", ("/a", "/b"), ("/a",), ("/a", "/b")),
            SetWatches("future", ("/a",), ("/a",), ("/a",)),
        ),
        *_one(0, SetData("/a"), Create("/a/x"), Delete("/a/x"), Delete("/a")),
    ],
    "watches_end_with_the_connection": [
        Open(0),
        Open(1),
        *_one(1, *_watched("", "/a")),
        Reopen(1),
        *_one(0, Create("/a")),
        *_one(1, *_watched("", "/a")),
        Drop(1),
        Reopen(1),
        *_one(0, Delete("/a")),
    ],
    "ephemerals": [
        Open(0),
        Open(1),
        *_one(
            0,
            Create("/a"),
            Create("/a/e", flags=EPHEMERAL, with_stat=True),
            Create("/a/", flags=EPHEMERAL_SEQUENTIAL),
        ),
        *_one(
            1, *_watched("/a", "/a/e"), Delete("/a/e"), Create("/a/e", flags=EPHEMERAL), SetData("/a/e", b"1")
        ),
        *_one(1, *_watched("/a", "/a/e", "/a/0000000001")),
        Close(0),
        *_state(1, "/a", "/a/e"),
        *_one(1, *_watched("/a", "/a/e")),
        Open(0),
        Close(1),
        *_state(0, "/a"),
    ],
    "ephemerals_survive_a_reconnect": [
        Open(0),
        Open(1),
        *_one(0, Create("/e", flags=EPHEMERAL), Create("/f", flags=EPHEMERAL)),
        *_one(1, *_watched("", "/e")),
        Drop(0),
        *_one(1, Exists("/e")),
        Reopen(0),
        *_one(0, Exists("/e"), Delete("/f"), Create("/e", flags=EPHEMERAL), Create("/g", flags=EPHEMERAL)),
        Reopen(0),
        *_one(0, Exists("/g")),
        Close(0),
        *_one(1, GetChildren("", with_stat=True)),
    ],
    "expiry": [
        Open(0),
        Open(1),
        *_one(
            0,
            Create("/a"),
            Create("/a/e", flags=EPHEMERAL),
            Create("/a/f", flags=EPHEMERAL),
            Create("/g", flags=EPHEMERAL),
        ),
        *_one(1, *_watched("", "/a", "/a/e", "/a/f")),
        Expire(0),
        *_state(1, "", "/a", "/a/e"),
        Reopen(0),
        *_one(0, Ping()),
        Reopen(0, good_password=False),
        Open(0),
        *_one(0, Exists("/a/e")),
    ],
    "closed_session": [
        Open(0),
        Close(0),
        *_one(0, Ping()),
        Reopen(0),
        Open(0),
        *_one(0, Ping()),
    ],
    "wrong_password": [
        Open(0),
        Open(1),
        *_one(0, Create("/e", flags=EPHEMERAL)),
        *_one(1, *_watched("/e")),
        Reopen(0, good_password=False),
        *_one(0, Exists("/e")),
        Reopen(0),
        *_one(0, Exists("/e")),
        Drop(0),
        Reopen(0, good_password=False),
        Reopen(0),
        Close(0),
    ],
    "zxid_ahead": [
        Open(0),
        *_one(0, Create("/e", flags=EPHEMERAL)),
        Reopen(0, ahead=True),
        *_one(0, Exists("/e")),
        Drop(0),
        Reopen(0, ahead=True),
        Reopen(0),
        *_one(0, Exists("/e")),
    ],
    "stolen_connection": [
        Open(0),
        Open(1),
        *_one(0, Create("/e", flags=EPHEMERAL), *_watched("/e")),
        Reopen(0),
        Reopen(0),
        *_one(1, SetData("/e")),
        *_one(0, Exists("/e"), Delete("/e")),
    ],
    "pipelined_read_between_writes": [
        Open(0),
        *_one(0, Create("/a"), Create("/b")),
        call(
            0,
            SetData("/a", b"1"),
            GetData("/b", True),
            SetData("/b", b"2"),
            GetData("/b", True),
            Exists("/a"),
        ),
        call(
            0,
            SetData("/b", b"3"),
            GetData("/b"),
            Delete("/b"),
            GetData("/b"),
            Exists("/b", True),
            Create("/b", b"4"),
        ),
        call(
            0,
            GetData("/b"),
            GetChildren("", True),
            Create("/c"),
            GetChildren("", True),
            Delete("/c"),
            GetChildren(""),
        ),
    ],
    "pipelined_sequentials": [
        Open(0),
        call(
            0,
            Create("/a"),
            *(Create("/a/q", flags=SEQUENTIAL) for _ in range(20)),
            GetChildren("/a", with_stat=True),
        ),
        call(
            0,
            *(Delete(f"/a/q{place:010d}") for place in range(0, 20, 2)),
            Create("/a/q", flags=SEQUENTIAL),
            Exists("/a"),
        ),
        call(0, *(SetData("/a", b"x", place) for place in range(6)), SetData("/a", b"x", 3), Exists("/a")),
    ],
    "pipelined_failures": [
        Open(0),
        call(
            0,
            Create("/a"),
            Create("/a"),
            Delete("/b"),
            Create("/a/b"),
            Delete("/a"),
            Delete("/a/b"),
            Delete("/a"),
            Sync("/"),
        ),
        call(
            0,
            Multi((Create("/a"), Check("/b"))),
            Exists("/a"),
            Multi((Create("/a"), Create("/b"))),
            Exists("/b"),
        ),
        call(0, Multi(()), Sync(""), Ping(), GetAcl("/a"), SetData("/a"), Sync("")),
    ],
    "pipelined_watches": [
        Open(0),
        Open(1),
        *_one(1, *_watched("", "/a")),
        call(0, Create("/a"), SetData("/a"), Create("/a/b"), Delete("/a/b"), Delete("/a"), Create("/a")),
        call(1, *_watched("", "/a"), SetData("/a"), *_watched("", "/a"), Delete("/a"), *_watched("", "/a")),
    ],
    "pipelined_ephemerals": [
        Open(0),
        call(
            0,
            Create("/e", flags=EPHEMERAL),
            SetData("/e", b"1"),
            Delete("/e"),
            Create("/e", flags=EPHEMERAL),
            Exists("/e"),
        ),
        Close(0),
        Open(0),
        *_one(0, Exists("/e"), Exists("")),
    ],
    "container_flags_by_create": [
        Open(0),
        *_one(
            0,
            Create("/a", flags=4),
            Exists("/a"),
            Create("/a/b"),
            Create("/a/q", flags=SEQUENTIAL),
            Delete("/a/b"),
        ),
        *_state(0, "/a"),
    ],
    "sync_paths": [
        Open(0),
        *_one(
            0,
            Sync("/missing"),
            Sync("@"),
            Sync("@relative"),
            Sync("/a//b"),
            Sync("/\0"),
            Sync("@/"),
            Sync(None),
        ),
    ],
    "set_watches_with_null_vectors": [
        Open(0),
        *_one(0, Create("@/null-vectors", flags=EPHEMERAL)),
        *(
            call(0, Payload(b"\xff\xff\xff\xf8\0\0\0\x65" + b"\0" * 8 + vectors))
            for vectors in (
                b"\xff\xff\xff\xff\0\0\0\0\0\0\0\0",
                b"\0\0\0\0\xff\xff\xff\xff\0\0\0\0",
                b"\0\0\0\1\0\0\0\x0d/null-vectors\xff\xff\xff\xff\0\0\0\0",
                b"\0\0\0\1\0\0\0\x0d/null-vectors\0\0\0\0\xff\xff\xff\xff",
            )
        ),
    ],
    "top_level_check": [
        Open(0),
        *_one(0, Create("/a"), Payload(b"\0\0\0\7\0\0\0\x0d\0\0\0\1/\xff\xff\xff\xff")),
        Reopen(0),
    ],
    **{f"multi_failing_at_{place}": _failing_at(place) for place in range(6)},
    "close_in_a_burst": [
        Open(0),
        Open(1),
        *_one(1, *_watched("", "/a")),
        call(0, Create("/a", flags=EPHEMERAL), SetData("/a"), Payload(b"\0\0\0\x09\xff\xff\xff\xf5")),
        *_one(1, Exists("/a"), Exists("")),
        Reopen(0),
    ],
    "auth_at_the_head_of_a_burst": [
        Open(0),
        Open(1),
        call(0, AMY, Create("/a", acls=((31, "auth", ""),)), GetData("/a"), SetData("/a"), GetAcl("/a")),
        *_one(1, GetData("/a")),
    ],
    "pings_in_a_burst": [
        Open(0),
        call(
            0,
            Ping(),
            Create("/a"),
            Ping(),
            GetData("/a", True),
            Ping(),
            SetData("/a"),
            Ping(),
            Sync(""),
            Ping(),
        ),
    ],
    "much_data": [
        Open(0),
        *_one(
            0, Create("/a", b"x" * 1_000_000), GetData("/a"), SetData("/a", b"y" * 1_040_000), Exists("/a")
        ),
        *_one(
            0,
            Multi((SetData("/a", b"z" * 500_000), Create("/b", b"z" * 500_000))),
            GetData("/a"),
            GetData("/b"),
        ),
        *_one(0, Multi((SetData("/a", b""), SetData("/b", b""), Delete("/b"))), Exists("/a")),
    ],
    "deep_and_long_paths": [
        Open(0),
        *_one(0, *(Create("/d" * depth, flags=0 if depth < 30 else EPHEMERAL) for depth in range(1, 32))),
        *_one(
            0,
            Create("/" + "n" * 5000),
            Exists("/" + "n" * 5000),
            Create("/" + "n" * 5000 + "/m", flags=SEQUENTIAL),
        ),
        *_one(
            0,
            GetChildren("/" + "n" * 5000, with_stat=True),
            GetChildren("", with_stat=True),
            Delete("/d" * 30),
        ),
    ],
    "many_children": [
        Open(0),
        Open(1),
        *_one(0, Create("/a")),
        *(call(0, *(Create("/a/c", flags=SEQUENTIAL) for _ in range(100))) for _ in range(5)),
        *_one(1, GetChildren("/a", True, with_stat=True)),
        *_one(0, Multi(tuple(Delete(f"/a/c{place:010d}") for place in range(100)))),
        *_one(1, GetChildren("/a", with_stat=True)),
        *_one(0, Multi(tuple(Create("/a/c", flags=SEQUENTIAL) for _ in range(300)))),
        *_one(1, GetChildren("/a", with_stat=True)),
        *_one(
            0, Multi((*(SetData(f"/a/c{place:010d}", b"", 0) for place in range(100, 400)), Check("/a", 1)))
        ),
        *_one(0, Multi(tuple(SetData(f"/a/c{place:010d}", b"", 0) for place in range(100, 400)))),
        *_one(1, GetData("/a/c0000000250"), Exists("/a")),
    ],
    "many_ephemerals": [
        Open(0),
        Open(1),
        *_one(0, Create("/a"), Create("/b")),
        call(0, *(Create(f"/{'ab'[place % 2]}/e", flags=EPHEMERAL_SEQUENTIAL) for place in range(200))),
        *_one(1, *_watched("/a", "/a/e0000000003", "/b")),
        Close(0),
        *_state(1, "/a", "/b"),
    ],
}
