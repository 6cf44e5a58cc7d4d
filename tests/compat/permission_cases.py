"""ACLs, identities and refusals."""

from __future__ import annotations

from tests.compat.building import (
    AMY,
    BOB,
    ONLY_AMY,
    one,
    watched,
)
from tests.compat.script import (
    OPEN,
    AddAuth,
    Check,
    Create,
    Delete,
    Drop,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    Open,
    Ping,
    Reopen,
    Script,
    SetAcl,
    SetData,
    Sync,
)

CASES: dict[str, Script] = {
    "acl_refusals": [
        Open(0),
        *one(
            0, *(Create("/a", acls=acls) for acls in (None, (), ((31, "world", "someone"),), ((31, "", ""),)))
        ),
        *one(
            0,
            *(
                Create("/a", acls=((31, "digest", name),))
                for name in ("", "a", ":", "a:b:c", "a:b:", ":b", "a:")
            ),
        ),
        *one(
            0,
            *(
                SetAcl("", ((31, "digest", name),), 99)
                for name in ("", "a", ":", "a:b:c", "a:b:", ":b", "a:")
            ),
        ),
        *one(
            0,
            *(
                SetAcl("", ((31, "ip", name),), 99)
                for name in ("", "1.2.3", "1.2.3.4", "1.2.3.4/", "1.2.3.4/0")
            ),
        ),
        *one(
            0,
            *(
                SetAcl("", ((31, "ip", name),), 99)
                for name in ("1.2.3.4/33", "1.2.3.4/-1", "1.2.3.256", "::1", "a")
            ),
        ),
        *one(
            0,
            *(
                SetAcl("", ((31, "ip", name),), 99)
                for name in ("1.2.3.4/8/8", "1.2.3.4/x", " 1.2.3.4", "1.2.3.04")
            ),
        ),
        *one(
            0,
            *(
                SetAcl("", ((31, "ip", name),), 99)
                for name in ("::1/64", "::/0", "::1/129", "1::2::3", "::ffff:1.2.3.4")
            ),
        ),
        *one(
            0,
            *(
                SetAcl("", ((31, scheme, "x"),), 99)
                for scheme in ("super", "sasl", "x509", "World", "nonsense")
            ),
        ),
        *one(
            0,
            SetAcl("", ((31, "auth", ""),), 99),
            SetAcl("/missing", ()),
            SetAcl("/missing"),
            Create("/missing/a", acls=()),
        ),
        *one(
            0,
            Create("", acls=()),
            Create("/a//b", acls=()),
            Create("@a", acls=()),
            SetAcl("@a", ()),
            SetAcl("/", ()),
        ),
        *one(0, SetAcl("", ((0, "world", "anyone"),), 99), SetAcl("", ((64, "world", "anyone"),), 99)),
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
        *one(
            0,
            AddAuth("ip", b"127.0.0.1"),
            AddAuth("ip", b""),
            AddAuth("ip", None),
            AddAuth("digest", b"x:y"),
            Ping(),
        ),
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
    "permissions": [
        Open(0),
        Open(1),
        *one(0, AMY),
        *(
            step
            for perms in (0, 1, 2, 4, 8, 16, 3, 17)
            for step in [
                *one(0, Create(f"/p{perms}", b"x", acls=((perms, "world", "anyone"), *ONLY_AMY))),
                *one(0, Create(f"/p{perms}/a"), Create(f"/p{perms}/b")),
                *one(
                    1,
                    Exists(f"/p{perms}"),
                    GetData(f"/p{perms}"),
                    GetChildren(f"/p{perms}"),
                    GetAcl(f"/p{perms}"),
                ),
                *one(
                    1,
                    GetChildren(f"/p{perms}", with_stat=True),
                    SetData(f"/p{perms}"),
                    Create(f"/p{perms}/c"),
                ),
                *one(
                    1,
                    Delete(f"/p{perms}/a"),
                    Delete(f"/p{perms}/missing"),
                    Create(f"/p{perms}/b"),
                    Sync(f"/p{perms}"),
                ),
                *one(
                    1,
                    Multi((Check(f"/p{perms}"),)),
                    Multi((SetData(f"/p{perms}", b"y"),)),
                    Exists(f"/p{perms}/a"),
                ),
                *one(
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
        *one(
            0, AMY, Create("/a", acls=ONLY_AMY), Create("/a/b"), Create("/b", acls=((1, "world", "anyone"),))
        ),
        *one(
            1, Multi((Create("/c"), Create("/a/c"))), Multi((Create("/c"), Delete("/a/b"))), GetChildren("")
        ),
        *one(
            1, Multi((Create("/c", acls=((1, "world", "anyone"),)), Create("/c/d"))), Multi((SetData("/b"),))
        ),
        *one(
            1,
            Multi((Create("/c"), SetData("/a"))),
            Multi((Check("/a"),)),
            Multi((Check("/b"), SetData("/a/b"))),
        ),
        *one(1, AMY, Multi((Create("/c"), Create("/a/c"), Delete("/a/b"), Check("/a"))), GetChildren("/a")),
    ],
    "get_acl_hides_digests": [
        Open(0),
        Open(1),
        *one(
            0,
            Create("/a", acls=(*ONLY_AMY, (1, "world", "anyone"))),
            Create("/b", acls=(*ONLY_AMY, (17, "world", "anyone"))),
        ),
        *one(
            0,
            Create("/c", acls=(*ONLY_AMY, (16, "world", "anyone"))),
            Create("/d", acls=(*ONLY_AMY, (6, "world", "anyone"))),
        ),
        *one(1, GetAcl("/a"), GetAcl("/b"), GetAcl("/c"), GetAcl("/d"), AMY, GetAcl("/a"), GetAcl("/d")),
    ],
    "ip_acls": [
        Open(0),
        *(
            step
            for place, name in enumerate(
                ("127.0.0.1", "127.0.0.2", "127.0.0.0/8", "10.0.0.0/8", "0.0.0.0/0", "127.0.0.2/31")
            )
            for step in one(
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
        *one(0, Create("/a", b"x"), SetData("/a", b"y")),
        *one(1, *watched("", "/a")),
        *one(
            0,
            SetAcl("/a"),
            GetData("/a"),
            SetAcl("/a", OPEN, 1),
            SetData("/a", b"z"),
            SetAcl("/a"),
            GetAcl("/a"),
        ),
        *one(0, SetAcl("/a", ((1, "world", "anyone"),)), SetAcl("/a"), Multi((SetAcl("/a"),)), Exists("/a")),
    ],
}
