"""Which lines of a target's modules an input reaches, and in which order: steps from line to line.

On sys.settrace: Python 3.11 has nothing faster of its own (sys.monitoring came with 3.12).
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_LINE_BITS = 20
# Lines after which an input counts as endless. The longest inputs of the corpus take a thousandth of it.
MOST_STEPS = 3_000_000


class Endless(BaseException):
    """The input keeps the code busy for more than MOST_STEPS lines. No `except Exception` stops it."""


class Coverage:
    """Traces calls. One at a time: sys.settrace belongs to the thread."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        """`modules` are imported already or can be; a package stands for all modules below it."""
        self._files = [str(file) for name in modules for file in _files(name)]
        self._bases: dict[CodeType, int | None] = {}
        self._numbers = {file: number for number, file in enumerate(self._files, 1)}
        self._seen: set[int] = set()
        self._last = 0
        self._steps = 0
        #: Line numbers that a run can reach, by module file.
        self.total = sum(len(set(_lines(file))) for file in self._files)

    def trace(self, call: Callable[[], object]) -> set[int]:
        """The steps of one call, whether it returns or raises. Raises what `call` raises, and Endless."""
        seen = self._seen = set()
        self._last = self._steps = 0
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            call()
        finally:
            sys.settrace(before)
        return seen

    @property
    def seen(self) -> set[int]:
        """The steps of the last call."""
        return self._seen

    def lines(self, steps: set[int]) -> int:
        """How many different lines these steps lead to."""
        return len({step & ((1 << 2 * _LINE_BITS) - 1) for step in steps})

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        try:
            base = self._bases[code]
        except KeyError:
            number = self._numbers.get(code.co_filename)
            base = self._bases[code] = None if number is None else number << _LINE_BITS
        return None if base is None else self._line

    def _line(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        if event == "line":
            base = self._bases[frame.f_code]
            assert base is not None
            here = base + frame.f_lineno
            self._seen.add(self._last << 2 * _LINE_BITS | here)
            self._last = here
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise Endless
        return self._line


def _files(module: str) -> list[Path]:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"no module {module}")
    file = Path(spec.origin)
    return sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else [file]


def _lines(file: str) -> Iterator[int]:
    """The lines inside functions: those of modules and classes run once, at import."""
    waiting = [compile(Path(file).read_text(), file, "exec")]
    while waiting:
        code = waiting.pop()
        waiting += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        if code.co_flags & 0x2:  # CO_NEWLOCALS: a function's or comprehension's, and a class's is not
            yield from (line for _, _, line in code.co_lines() if line and line != code.co_firstlineno)
