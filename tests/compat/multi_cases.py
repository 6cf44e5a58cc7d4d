"""Multis."""

from __future__ import annotations

from tests.compat.building import (
    multi_script,
    one,
)
from tests.compat.script import (
    EPHEMERAL,
    EPHEMERAL_SEQUENTIAL,
    SEQUENTIAL,
    Check,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Open,
    Script,
    SetData,
    Sync,
)

CASES: dict[str, Script] = {
    "create_delete_create_in_multi": multi_script(
        Create("/a", b"1"), Delete("/a"), Create("/a", b"2", with_stat=True)
    ),
    "create_and_delete_in_multi": multi_script(Create("/a"), Delete("/a")),
    "delete_and_create_in_multi": multi_script(
        Delete("/a"),
        Create("/a", b"new", with_stat=True),
        before=(Create("/a", b"old"), SetData("/a", b"older")),
    ),
    "set_twice_in_multi": multi_script(SetData("/a", b"1"), SetData("/a", b"2"), before=(Create("/a"),)),
    "set_then_delete_in_multi": multi_script(SetData("/a", b"1"), Delete("/a"), before=(Create("/a"),)),
    "create_then_set_in_multi": multi_script(Create("/a"), SetData("/a", b"1", 0), Check("/a", 1)),
    "create_parent_and_child_in_multi": multi_script(
        Create("/a"),
        Create("/a/b", with_stat=True),
        Create("/a/b/c", with_stat=True),
        look=("", "/a", "/a/b", "/a/b/c"),
    ),
    "delete_child_and_parent_in_multi": multi_script(
        Delete("/a/b"), Delete("/a"), before=(Create("/a"), Create("/a/b"))
    ),
    "delete_parent_and_child_in_multi": multi_script(
        Delete("/a"), Delete("/a/b"), before=(Create("/a"), Create("/a/b")), look=("", "/a", "/a/b")
    ),
    "delete_parent_recreate_with_children_in_multi": multi_script(
        Delete("/a/b"),
        Delete("/a"),
        Create("/a", b"again"),
        Create("/a/q", flags=SEQUENTIAL, with_stat=True),
        before=(Create("/a"), Create("/a/b"), Create("/a/q", flags=SEQUENTIAL)),
        look=("", "/a", "/a/q0000000000"),
    ),
    "sequential_creates_in_multi": multi_script(
        *(Create("/a/q", flags=SEQUENTIAL, with_stat=place % 2 == 0) for place in range(6)),
        Create("/a/", flags=EPHEMERAL_SEQUENTIAL),
        Delete("/a/q0000000003"),
        Create("/a/q", flags=SEQUENTIAL),
        before=(Create("/a"),),
    ),
    "check_around_writes_in_multi": multi_script(
        Check("/a", 0),
        SetData("/a", b"1", 0),
        Check("/a", 1),
        Check("/a"),
        SetData("/a", b"2", 0),
        before=(Create("/a"),),
    ),
    "check_of_deleted_in_multi": multi_script(Delete("/a"), Check("/a"), before=(Create("/a"),)),
    "clickhouse_deduplication": multi_script(
        Create("/a/block", b"1"),
        Delete("/a/block"),
        Create("/a/log-", b"entry", flags=SEQUENTIAL),
        Create("/a/block", b"2"),
        Create("/a/block", b"3"),
        before=(Create("/a"),),
        look=("", "/a", "/a/block"),
    ),
    "empty_multi": [Open(0), *one(0, Multi(), Multi(), Create("/a"))],
    "multi_of_checks": multi_script(Check(""), Check("/a", 0), Check("/a"), before=(Create("/a"),)),
    "multi_with_reads": multi_script(Create("/a"), GetData("/a"), Create("/b")),
    "multi_of_reads": multi_script(GetData(""), Exists(""), GetChildren("")),
    **{
        f"multi_with_flags_{flags}": multi_script(Create("/a"), Create("/b", flags=flags))
        for flags in (-1, 5, 6, 7)
    },
    "multi_with_container": multi_script(Create("/a", flags=4), Create("/a/b"), look=("", "/a", "/a/b")),
    "multi_with_sync": multi_script(Create("/a"), Sync("/a")),
    "multi_with_bad_path": multi_script(Create("/a"), Create("/a//b")),
    "multi_with_null_path": multi_script(Create("/a"), Delete(None)),
    "multi_with_flags_after_a_failure": multi_script(Check("/missing"), Create("/b", flags=6)),
    "multi_with_null_acl": multi_script(Check("/missing"), Create("/b", acls=None)),
    "multi_with_bad_acl": multi_script(Create("/a"), Create("/b", acls=())),
    "multi_with_nested_multi": multi_script(Create("/a"), Multi((Create("/b"),))),
    "multi_not_empty": multi_script(Create("/a"), Create("/a/b"), Delete("/a")),
    "multi_under_ephemeral": multi_script(Create("/a", flags=EPHEMERAL), Create("/a/b")),
    "multi_replaces_ephemeral": multi_script(
        Delete("/a"),
        Create("/a"),
        Create("/a/b"),
        before=(Create("/a", flags=EPHEMERAL),),
        look=("", "/a", "/a/b"),
    ),
}
