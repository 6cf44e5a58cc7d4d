"""What a request costs, in lines of Python code, on states that may multiply it: DESIGN's "cost and life".

The invariant: all the work is bounded by the bytes of the request, of its answer and events, and by the nodes
that it changes; and so is the longest stretch without a pause, however large the state is. A higher cost
reaches new code (`_climb`), so the fuzzer keeps it and climbs on.
"""

from proof.fuzzing.expensive import SMALL, Bill, Lines, measured
from proof.fuzzing.target import Target, Wrong
from proof.fuzzing.worst import name_of, per_byte
from proxy.state.operation import Cost

#: Lines of code a byte, at most, of all the work; and of a stretch without a pause.
PER_BYTE = 30
PER_BYTE_OF_A_STRETCH = 5
#: Lines of a stretch, beside: 16 steps, and what each request costs.
STRETCH = 2000


def _climb(height: float) -> int:
    """Reach code that only higher costs reach."""
    steps = 0
    for _ in range(int(height)):
        steps += 1
    return steps


def check(bill: Bill) -> None:
    """Raises Wrong for a request that costs too much."""
    stretch = bill.longest - PER_BYTE_OF_A_STRETCH * (bill.sent + bill.received)
    _climb(128 * stretch / STRETCH)
    if stretch > STRETCH:
        raise Wrong(f"{name_of(bill.opcode)} has no pause for {bill.longest:.0f} lines: {bill}")
    if Cost.SEARCH in bill.cost:
        return
    _climb(128 * per_byte(bill) / PER_BYTE)
    if per_byte(bill) > PER_BYTE:
        raise Wrong(f"{name_of(bill.opcode)} takes {per_byte(bill):.1f} lines a byte: {bill}")


def costs(data: bytes) -> None:
    """The sizes of a state, and some requests of a client."""
    for bill in measured(data, SMALL, Lines()):
        check(bill)


COSTS = (
    Target(
        "costs",
        "The sizes of a state, and requests that may be expensive there.",
        costs,
        (),
        fixed_bytes=64 << 20,
    ),
)
