"""Memory: huge pages for the program itself, and no garbage collection while many objects are made."""

import contextlib
import ctypes
import gc
import re
from collections.abc import Iterator
from pathlib import Path

_HUGE_PAGE = 2 << 20  # bytes, where pages have 4 KiB
_MADV_COLLAPSE = 25  # linux/mman.h
# Memory that is written to, and of no file: the objects of Python, and the heap of C.
_ANONYMOUS = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0\s+(?:\[heap\])?$", re.MULTILINE)


def use_huge_pages(maps: Path = Path("/proc/self/maps")) -> int:
    """Move the memory that is in use now into huge pages; returns the bytes of them.

    A process that has slept until the next request finds the processor's caches filled by others. Then the
    page of nearly each object of the program has to be looked up again, which costs most in a virtual
    machine. Moving 2 MiB takes 4 ms and more, so call this before a tree is loaded. It does not depend on the
    host's setting for huge pages. 0 if the kernel cannot do it: Linux can since 6.1.
    """
    madvise = ctypes.CDLL(None).madvise
    moved = 0
    with contextlib.suppress(OSError):  # another system
        for begin, end in _ANONYMOUS.findall(maps.read_text()):
            first = -(-int(begin, 16) // _HUGE_PAGE) * _HUGE_PAGE
            for page in range(first, int(end, 16) - _HUGE_PAGE + 1, _HUGE_PAGE):
                if not madvise(ctypes.c_void_p(page), ctypes.c_size_t(_HUGE_PAGE), _MADV_COLLAPSE):
                    moved += _HUGE_PAGE
    return moved


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection in the body: it would visit all objects of a large tree again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
