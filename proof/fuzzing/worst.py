"""`python -m proof.fuzzing.worst`: look for the most expensive requests, by CPU time, on large states.

It keeps the worst genome of each operation, changes one of them, and tries again. At the end it prints for
each operation the most microseconds a byte, and the longest milliseconds without a pause, with the genomes.
"""

import argparse
import random
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from codec.constants import KeeperOpCode, OpCode
from lab.arguments import seconds
from proof.fuzzing.expensive import GENES, GENES_OF_STATE, LARGE, Bill, CpuTime, measured
from proxy.state.operation import Cost
from proxy.support.usage import Parser

#: Bytes that each request counts, beside its own: header, zxid, place in an entry.
ENVELOPE = 64
#: Bytes that a changed node counts: it is in the next snapshot, and in memory.
NODE = 256


class Found(NamedTuple):
    """The worst of one operation by one measure."""

    value: float
    bill: Bill
    genome: bytes


def per_byte(bill: Bill) -> float:
    """Work for each byte of the request, the answer and the changed nodes."""
    return bill.total / (ENVELOPE + bill.sent + bill.received + NODE * bill.changes)


MEASURES = {"us a byte": (per_byte, 1e6), "ms a stretch": (lambda bill: bill.longest, 1e3)}


def search(seconds_in_all: float, seed: int) -> dict[tuple[str, int], Found]:
    """The worst that was found, by measure and opcode."""
    rng = random.Random(seed)
    worst: dict[tuple[str, int], Found] = {}
    until = time.monotonic() + seconds_in_all
    while time.monotonic() < until:
        genome = _next(rng, list(worst.values()))
        for place, bill in enumerate(measured(genome, LARGE, CpuTime())):
            start = GENES_OF_STATE + place * GENES
            alone = genome[:GENES_OF_STATE] + genome[start : start + GENES]
            for name, (measure, _) in MEASURES.items():
                key = name, bill.opcode
                if key not in worst or measure(bill) > worst[key].value:
                    worst[key] = Found(measure(bill), bill, alone)
    return worst


def _next(rng: random.Random, known: Sequence[Found]) -> bytes:
    if not known or rng.random() < 0.3:
        return rng.randbytes(GENES_OF_STATE + 3 * GENES)
    genome = bytearray(rng.choice(known).genome)
    for _ in range(rng.randint(1, 3)):
        genome[rng.randrange(len(genome))] = rng.randrange(256)
    return bytes(genome)


def name_of(opcode: int) -> str:
    """The name of an operation."""
    return (OpCode if opcode in list(OpCode) else KeeperOpCode)(opcode).name


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = Parser(
        prog="python -m proof.fuzzing.worst",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=seconds, default=60.0, metavar="N", help="(default: 60)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(default: 1)")
    given = parser.parse_args(arguments)
    worst = search(given.seconds, given.seed)
    for name, (_, unit) in MEASURES.items():
        print(f"{name}:")
        found = [one for (measure, _), one in worst.items() if measure == name]
        for value, bill, genome in sorted(found, reverse=True):
            searches = "searches " if Cost.SEARCH in bill.cost else ""
            sizes = f"{bill.sent} + {bill.received} bytes, {bill.changes} changes"
            print(
                f"{value * unit:10.2f} {name_of(bill.opcode):24} {searches:10}{sizes:40} error {bill.answer}"
                f" {genome.hex()}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
