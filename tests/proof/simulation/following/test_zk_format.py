"""What the source writes, another reader and the pipeline's find; and what is broken is found."""

from pathlib import Path

import pytest

from pipeline.follow.base import load_base
from proof.simulation.following import zk_format
from proof.simulation.following.source import Source
from proof.simulation.following.zk_format import Node
from proof.simulation.world import World


def _source(folder: Path, seed: int, seconds: float = 60.0) -> Source:
    world = World(seed)
    source = Source(world, folder)
    source.start()
    world.run(seconds)
    source.stop()
    return source


@pytest.mark.parametrize("seed", [1, 4, 7])
def test_three_implementations_agree_on_the_tree(tmp_path: Path, seed: int) -> None:
    source = _source(tmp_path, seed)
    assert source.transactions > 100
    expected = source.moments[source.zxid]
    found = zk_format.read(tmp_path / "version-2")
    assert found is not None
    assert zk_format.differences("the reader", found.nodes, expected.nodes) == []
    assert (found.zxid, found.sessions) == (source.zxid, expected.sessions)
    machine = load_base(str(tmp_path), None, 1)
    nodes = {path: Node(*node.fields()) for path, node in machine.tree.nodes.items()}
    assert zk_format.differences("the pipeline", nodes, expected.nodes) == []
    assert {session.id: session.timeout_ms for session in machine.sessions.values()} == expected.sessions


def test_a_transaction_that_comes_twice_or_is_missing_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "version-2"
    folder.mkdir()
    nodes = {"/": Node(b"", zk_format.OPEN, 0, 0, 0, 0, 0, 0, 0, 0, 0)}
    (folder / "snapshot.5").write_bytes(zk_format.snapshot(nodes, {}))
    refused = zk_format.number(-101)

    def log(*zxids: int) -> None:
        entries = [zk_format.entry(1, 1, zxid, 1, zk_format.ERROR, refused) for zxid in zxids]
        (folder / "log.6").write_bytes(zk_format.LOG_HEADER + b"".join(entries))

    log(4, 5, 6, 7, 0x100000001)
    found = zk_format.read(folder)
    assert found is not None
    assert found.zxid == 0x100000001
    (folder / "snapshot.9").write_bytes(zk_format.snapshot(nodes, {}))
    log(6, 7, 10)  # what is between is in the snapshot
    found = zk_format.read(folder)
    assert found is not None
    assert found.zxid == 10
    for zxids in ((6, 6), (6, 8), (6, 7, 6)):
        log(*zxids)
        with pytest.raises(zk_format.Broken, match="comes"):
            zk_format.read(folder)


def test_a_snapshot_that_is_not_what_the_log_leads_to_is_found(tmp_path: Path) -> None:
    source = _source(tmp_path, 1)
    folder = tmp_path / "version-2"
    newest = max(int(file.suffix[1:], 16) for file in folder.glob("snapshot.*"))
    nodes, sessions = source.moments[newest]
    nodes["/source"] = nodes["/source"]._replace(version=99)
    (folder / f"snapshot.{newest:x}").write_bytes(zk_format.snapshot(nodes, sessions))
    with pytest.raises(zk_format.Broken, match="/source is"):
        zk_format.read(folder)


def test_a_snapshot_with_a_flipped_bit_is_found(tmp_path: Path) -> None:
    source = _source(tmp_path, 1, 5.0)
    assert source.zxid
    folder = tmp_path / "version-2"
    newest = max(folder.glob("snapshot.*"), key=lambda file: int(file.suffix[1:], 16))
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(bytes(data))
    with pytest.raises((zk_format.Broken, UnicodeDecodeError, KeyError)):
        zk_format.read(folder)
