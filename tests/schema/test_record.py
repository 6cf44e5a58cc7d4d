"""The tree's record and a proxy's value."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.errors import BadValue
from schema.json_values import pack_json
from schema.record import (
    Home,
    ProxyValue,
    Seal,
    SnapshotRef,
    TreeRecord,
    decode_proxy,
    decode_record,
    encode_proxy,
    encode_record,
)
from tests.schema.damage import assert_all_damage_is_refused
from tests.schema.strategies import LONGS, TEXTS, UNSIGNED
from tests.table import one_by_one

_SNAPSHOT = SnapshotRef("0000000000000005-cafe", 5, "cafe", 3, 1, 1234, 10, 2, 1 << 40, (1 << 64) - 1)
_RECORD = TreeRecord(True, 14841639068965178418, 1, _SNAPSHOT, None)
_SNAPSHOTS = st.none() | st.builds(
    SnapshotRef, TEXTS, LONGS, TEXTS, *[st.integers(min_value=0)] * 5, LONGS, UNSIGNED
)


_SEALS = st.none() | st.builds(Seal, TEXTS, TEXTS, UNSIGNED, LONGS)


@given(st.builds(TreeRecord, st.booleans(), UNSIGNED, st.integers(0, 9), _SNAPSHOTS, _SNAPSHOTS, _SEALS))
def test_a_record_comes_back(record: TreeRecord) -> None:
    assert decode_record(encode_record(record)) == record


def test_a_record_is_readable() -> None:
    members = json.loads(encode_record(_RECORD))
    members.pop("crc")
    assert members == {
        "schema": 2,
        "complete": True,
        "cluster_id": 14841639068965178418,
        "level": 1,
        "current": {**_SNAPSHOT._asdict(), "digest": "ffffffffffffffff"},
        "previous": None,
    }
    assert list(members["current"].values())[:3] == ["0000000000000005-cafe", 5, "cafe"]


def test_a_seal_is_readable_and_leads_to_a_tree_not_to_addresses() -> None:
    seal = Seal("https://etcd-1:2379,https://etcd-2:2379", "/zketcd", 7, 1763898000000)
    assert json.loads(encode_record(_RECORD._replace(seal=seal)))["seal"] == seal._asdict()
    assert seal.leads_to(Seal("https://etcd-3:2379", "/zketcd", 7, 5))
    assert not seal.leads_to(seal._replace(prefix="/other"))
    assert not seal.leads_to(seal._replace(cluster_id=8))


def test_damage_to_a_record_or_a_proxys_value_is_refused() -> None:
    assert_all_damage_is_refused(decode_record, encode_record(_RECORD))
    assert_all_damage_is_refused(decode_proxy, encode_proxy(_PROXY))


_PROXY = ProxyValue(
    (1, 2),
    "0.2.0",
    home=Home("db-1", "0.0.0.0:2181", "http://db-1:8080", 1763898000000),
    lease=5,
    visits=True,
)


def test_a_proxys_value_comes_back_and_is_read_by_and_from_proxies_that_know_no_home() -> None:
    assert decode_proxy(encode_proxy(_PROXY)) == _PROXY
    assert decode_proxy(pack_json({"levels": [1], "version": "0.1.0"})) == ProxyValue((1,), "0.1.0")
    members = json.loads(encode_proxy(_PROXY))
    assert (members["levels"], members["version"]) == ([1, 2], "0.2.0"), "all that proxies of before read"


@one_by_one(
    "changes",
    [{"host": 5}, {"listen": None}, {"admin": 1}, {"started": "today"}, {"lease": 2.5}, {"visits": 1}],
)
def test_a_home_of_another_type_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match="a proxy's value has no proper"):
        decode_proxy(pack_json({"levels": [1], "version": "", **changes}))


def _members(**changes: Any) -> dict[str, Any]:
    members = json.loads(encode_record(_RECORD))
    del members["schema"], members["crc"]
    return {**members, **changes}


_DIGEST = _SNAPSHOT._asdict()


@one_by_one(
    "changes",
    [
        {"complete": 1},
        {"cluster_id": "7"},
        {"level": None},
        {"level": True},
        {"current": 3},
        {"current": []},
        {"previous": {}},
        {"current": {**_DIGEST, "digest": 5}},
        {"current": {**_DIGEST, "digest": "not a number"}},
        {"current": {**_DIGEST, "digest": "00", "name": 5}},
    ],
)
def test_a_record_without_a_member_or_with_one_of_another_type_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match="the tree's record has no proper"):
        decode_record(pack_json(_members(**changes)))
    (name,) = changes
    members = _members()
    del members[name]
    with pytest.raises(BadValue, match=name):
        decode_record(pack_json(members))


@given(st.builds(ProxyValue, st.lists(st.integers(), max_size=3).map(tuple), TEXTS, st.booleans()))
def test_a_proxys_value_comes_back(proxy: ProxyValue) -> None:
    assert decode_proxy(encode_proxy(proxy)) == proxy


@pytest.mark.parametrize(
    "members",
    [{}, {"levels": 1, "version": "x"}, {"levels": ["1"], "version": "x"}, {"levels": [1], "version": 1}],
)
def test_other_proxys_values_are_refused(members: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match="a proxy's value has no proper"):
        decode_proxy(pack_json(members))
