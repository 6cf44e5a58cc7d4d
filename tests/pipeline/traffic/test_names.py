"""Names are ZooKeeper's."""

import pytest

from pipeline.traffic import names


@pytest.mark.parametrize(
    ("opcode", "name"),
    [
        *[(1, "create"), (5, "setData"), (7, "setACL"), (15, "create2"), (21, "createTTL"), (-1, "error")],
        *[(20, "deleteContainer"), (-11, "closeSession"), (502, "createIfNotExists"), (999, "999")],
    ],
)
def test_operations(opcode: int, name: str) -> None:
    assert names.operation(opcode) == name


@pytest.mark.parametrize(
    ("code", "name"), [(0, "OK"), (-101, "NONODE"), (-2, "RUNTIMEINCONSISTENCY"), (-999, "-999")]
)
def test_results(code: int, name: str) -> None:
    assert names.result(code) == name


def test_modes() -> None:
    assert [names.mode(flags) for flags in (0, 3, 4, 9)] == [
        "PERSISTENT",
        "EPHEMERAL_SEQUENTIAL",
        "CONTAINER",
        None,
    ]
    assert names.is_sequential("PERSISTENT_SEQUENTIAL_WITH_TTL")
    assert not names.is_sequential(None)
    assert names.is_ephemeral("EPHEMERAL")
    assert not names.is_ephemeral("PERSISTENT")
    assert names.without_number("/a/n-0000000012") == "/a/n-"
    assert names.without_number("/a/n-") == "/a/n-"
