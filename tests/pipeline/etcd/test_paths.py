"""Repeated paths and missing parents are found, and nothing else is."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.etcd.paths import Faults, assigned, check, describe, hashes, merged, suspects
from schema.paths import ROOT, parent_of

_NAMES = st.text("ab/é☃", min_size=1, max_size=4).map(lambda name: name.replace("/", "-"))
_SOME = st.lists(_NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))


def column(paths: list[str]) -> pa.Array:
    return pa.array(paths, pa.string())


def faults_of(*parts: list[str]) -> Faults:
    buckets: dict[int, list[pa.RecordBatch]] = {}
    for part in parts:
        for bucket, batch in assigned([hashes(column(part))], 5):
            buckets.setdefault(bucket, []).append(batch)
    return merged(map(check, buckets.values()))


def described(*parts: list[str]) -> str | None:
    faults = faults_of(*parts)
    assert faults
    return describe([path for part in parts for path in suspects(column(part), faults)], faults)


@given(st.lists(_SOME, max_size=20), st.integers(0, 20))
def test_a_tree_has_no_faults_and_every_fault_is_found(paths: list[str], cut: int) -> None:
    whole = {ROOT}
    for path in paths:
        while path != ROOT:
            whole.add(path)
            path = parent_of(path)
    tree = sorted(whole)
    assert not faults_of(tree[:cut], tree[cut:])
    again = tree[cut % len(tree)]
    assert described(tree[:cut], [*tree[cut:], again]) == f"a path came more than once: {again}"
    above = parent_of(tree[-1]) if tree[-1] != ROOT else None
    if above not in (None, ROOT):
        without = [path for path in tree if path != above]
        assert f"but its parent {above} is not" in str(described(without))


def test_a_slice_and_long_paths() -> None:
    long = "/" + "x" * 10_000
    whole = column(["/", "/a", long, f"{long}/b"])
    own, parents = hashes(whole)
    for start in range(4):
        part, _ = hashes(whole.slice(start))
        assert part.tolist() == own[start:].tolist()
    assert parents.tolist() == [own[0], own[0], own[2]]
    assert len(set(own.tolist())) == 4
    assert [len(part) for part in hashes(whole.slice(4))] == [0, 0]


def test_equal_hashes_of_different_paths_are_no_fault() -> None:
    own, parents = hashes(column(["/a"]))
    faults = Faults(own, parents[:0])
    assert faults
    assert describe(["/a", "/b"], faults) is None


def test_what_has_no_slash_is_no_path_and_does_no_harm() -> None:
    for odd in ("a", "ab", "ä", ""):
        for paths in ([odd, "/", "/b/c"], ["/", "/b/c", odd]):
            assert described(paths) == "/b/c is in the table, but its parent /b is not"
        faults = faults_of([odd])
        assert describe([odd], faults) is None


def test_what_is_no_path_at_all_does_no_harm() -> None:
    hashes(column(["a", "b"]))
    assert not check([])
    assert not merged([])
    assert list(assigned([], 3)) == []
