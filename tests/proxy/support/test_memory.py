"""Huge pages: which memory is moved, and nothing where that cannot be."""

import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.support.memory import use_huge_pages

_SIZE = 8 << 20
_ANONYMOUS = "rw-p 00000000 00:00 0"


@pytest.fixture
def memory() -> Iterator[mmap.mmap]:
    """Some memory of no file that is in use."""
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 1):
        pytest.skip("this kernel cannot collapse pages")
    with mmap.mmap(-1, _SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as made:
        for page in range(0, _SIZE, mmap.PAGESIZE):
            made[page] = 1
        yield made


def _moved(memory: mmap.mmap, rest: str, maps: Path) -> int:
    """What is moved of this memory if /proc/self/maps has it in a line that ends so."""
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    maps.write_text(f"{begin:x}-{begin + _SIZE:x} {rest}\n")
    return use_huge_pages(maps)


@pytest.mark.parametrize("rest", [_ANONYMOUS, f"{_ANONYMOUS}          [heap]"])
def test_memory_of_no_file_is_moved(memory: mmap.mmap, tmp_path: Path, rest: str) -> None:
    assert _moved(memory, rest, tmp_path / "maps") >= _SIZE - (2 << 20)
    assert set(memory[:: mmap.PAGESIZE]) == {1}


@pytest.mark.parametrize(
    "rest",
    [
        f"{_ANONYMOUS}          [stack]",
        "rw-p 00001000 fe:01 1234       /usr/lib/libc.so.6",
        "rw-s 00000000 00:01 77         /dev/zero (deleted)",
        "r-xp 00000000 00:00 0          [vdso]",
        "---p 00000000 00:00 0",
    ],
)
def test_other_memory_stays(memory: mmap.mmap, tmp_path: Path, rest: str) -> None:
    assert _moved(memory, rest, tmp_path / "maps") == 0


@pytest.mark.long
def test_all_memory_of_the_process_is_looked_at(memory: mmap.mmap) -> None:
    assert use_huge_pages() >= len(memory) - (2 << 20)


def test_another_system_has_no_maps(tmp_path: Path) -> None:
    assert use_huge_pages(tmp_path / "maps") == 0
