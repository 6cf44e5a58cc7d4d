"""What a request costs, on states that may multiply it: DESIGN's "cost and life".

The invariant: all the work is bounded by the bytes of the request, of its answer, by the nodes that it
changes and by the watchers that it notifies; and so is the longest stretch without a pause, and what is kept
for good, however large the state is.

An input is judged by lines of Python code on small states. `make fuzz` searches by itself, by CPU time on
large ones.
"""

from proof.fuzzing.expensive import SMALL, measured
from proof.fuzzing.target import Target, Wrong
from proof.fuzzing.worst import name_of, search


def costs(data: bytes) -> None:
    """The sizes of a state, and some requests of a client."""
    for bill in measured(data, SMALL):
        for measure, share in SMALL.shares(bill).items():
            if share > 1:
                raise Wrong(f"{name_of(bill.opcode)}: {measure} is {share:.1f} times its bound: {bill}")


COSTS = (
    Target(
        "costs",
        "The sizes of a state, and requests that may be expensive there.",
        costs,
        (),
        fixed_bytes=256 << 20,
        search=search,
    ),
)
