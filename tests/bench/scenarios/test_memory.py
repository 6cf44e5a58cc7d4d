"""What the memory scenario makes of its tree and of the JVM's answer."""

import pytest

from bench.data import SIZE
from bench.scenarios import memory


def test_nodes_come_after_their_directories_and_hold_different_data() -> None:
    bodies = [body for _, body in memory.nodes(2500)]
    paths = [body[4 : 4 + int.from_bytes(body[:4], "big")] for body in bodies]
    assert paths[:2] == [b"/d000000", b"/d000000/n000001"]
    assert paths[1000] == b"/d000001"
    assert len(set(paths)) == 2500
    starts = [4 + len(path) + 4 for path in paths]
    assert len({body[start : start + SIZE] for body, start in zip(bodies, starts, strict=True)}) == 2500


def test_the_live_heap_is_that_of_all_generations_and_metaspace() -> None:
    info = (
        " def new generation   total 100K, used 10K [0x1)\n"
        "  eden space 80K,  12% used [0x1)\n"
        " tenured generation   total 200K, used 20K [0x1)\n"
        " Metaspace       used 5K, committed 8K\n"
        "  class space    used 1K, committed 2K\n"
    )
    assert memory._used_kib(info.replace("12% used", "12%")) == 35
    with pytest.raises(ValueError, match="no use of the heap"):
        memory._used_kib("nonsense")
