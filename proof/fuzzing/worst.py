"""A search for the requests that cost most: the worst of each operation is kept, changed, and tried again.

`make fuzz` runs it by CPU time on large states. `python -m proof.fuzzing.worst GENOME` measures one that it
has found.
"""

import random
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from codec.constants import KeeperOpCode, OpCode
from proof.fuzzing.corpus import committed
from proof.fuzzing.expensive import ALL, GENES, GENES_OF_STATE, LARGE, Bill, Scale, measured, sizes
from proxy.support.usage import Parser

# A few bytes of these may do most.
_OFTEN = (OpCode.MULTI, OpCode.CLOSE_SESSION, KeeperOpCode.REMOVE_RECURSIVE)
_TOGETHER = 8  # requests on one state
_AGAIN = 2  # times that a finding is measured once more


class Found(NamedTuple):
    """The worst of one operation by one measure."""

    share: float  # of its bound
    measure: str
    bill: Bill
    genome: bytes

    def __str__(self) -> str:
        return (
            f"{name_of(self.bill.opcode)}: {self.measure} is {self.share:.1f} times its bound: {self.bill}\n"
            f"python -m proof.fuzzing.worst {self.genome.hex()}"
        )


class Search:
    """A search, and the worst that it has found, by measure and opcode."""

    def __init__(self, scale: Scale, seed: int, first: Sequence[bytes] = ()) -> None:
        """`first`: inputs to begin with."""
        self._scale = scale
        self._first = list(first)
        self._rng = random.Random(seed)
        self.worst: dict[tuple[str, int], Found] = {}
        self.tries = 0

    def try_some(self) -> Iterator[Found]:
        """Try a state with some requests: what is worse than all before."""
        genome = self._next()
        state, starts = genome[:GENES_OF_STATE], range(GENES_OF_STATE, len(genome), GENES)
        for start, bill in zip(starts, measured(genome, self._scale), strict=True):
            self.tries += 1
            alone = state + genome[start : start + GENES]
            for measure, share in self._scale.shares(bill).items():
                known = self.worst.get((measure, bill.opcode))
                if known is None or share > known.share:
                    if share > 1:
                        share = min(share, self._again(alone, measure))
                    found = self.worst[measure, bill.opcode] = Found(share, measure, bill, alone)
                    yield found

    def _again(self, genome: bytes, measure: str) -> float:
        """The share once more, on a state of its own: CPU time depends on the machine."""
        return min(
            self._scale.shares(bill).get(measure, 0)
            for _ in range(_AGAIN)
            for bill in measured(genome, self._scale)
        )

    def _next(self) -> bytes:
        """A state with some requests: new ones, or of those known, changed a little."""
        if self._first:
            return self._first.pop()
        genome = self._changed(slice(GENES_OF_STATE), GENES_OF_STATE, 2)
        for _ in range(_TOGETHER):
            one = self._changed(slice(GENES_OF_STATE, None), GENES, 1)
            if self._rng.random() < 0.3:
                one[0] = ALL.index(self._rng.choice(_OFTEN))
            genome += one
        return bytes(genome)

    def _changed(self, of: slice, size: int, most: int) -> bytearray:
        rng, known = self._rng, list(self.worst.values())
        if not known or rng.random() < 0.3:
            return bytearray(rng.randbytes(size))
        genes = bytearray(max(rng.choices(known, k=3)).genome[of])
        for _ in range(rng.randint(0, most)):
            genes[rng.randrange(size)] = rng.randrange(256)
        return genes


def search(seconds_in_all: float, seed: int) -> tuple[int, list[str]]:
    """Search on large states by CPU time; how often it has tried, and what costs too much, for people."""
    one, until = Search(LARGE, seed, committed("costs")), time.monotonic() + seconds_in_all
    while time.monotonic() < until:
        for _ in one.try_some():
            pass
    return one.tries, [str(found) for found in sorted(one.worst.values(), reverse=True) if found.share > 1]


def name_of(opcode: int) -> str:
    """The name of an operation."""
    return (OpCode if opcode in list(OpCode) else KeeperOpCode)(opcode).name


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = Parser(prog="python -m proof.fuzzing.worst", description=__doc__)
    parser.add_argument("genome", help="what `make fuzz` has printed", type=bytes.fromhex)
    genome = parser.parse_args(arguments).genome
    print(sizes(iter(genome), LARGE))
    for bill in measured(genome, LARGE):
        print(name_of(bill.opcode), bill, LARGE.shares(bill))
    return 0


if __name__ == "__main__":
    sys.exit(main())
