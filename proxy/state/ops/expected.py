"""What a part of a multiRead will take, to be added to that of the parts before it. May raise TooLong.

`steps.of_part` makes of it what the same read takes alone. Keeper's lists ask `expect_list` as well.
"""

from collections.abc import Callable
from typing import Any

from proxy.state.node import Node
from proxy.state.operation import Reading
from proxy.state.pause import BYTES_PER_STEP
from schema.paths import ROOT


def expect_nothing(_reading: Reading, _fields: object, steps: int) -> int:
    """A part that is a step whatever the state is."""
    return steps


def expect_data(reading: Reading, fields: Any, steps: int) -> int:
    """Expect so many steps, and those to copy a node's data; how many in all."""
    node = _node(reading, fields[0])
    if node is not None:
        steps += node.size // BYTES_PER_STEP
        reading.pause.expect(steps)
    return steps


def expect_children(per_step: int) -> Callable[[Reading, Any, int], int]:
    """A list of a node's children, of which so many are one step."""

    def expect(reading: Reading, fields: Any, steps: int) -> int:
        return expect_list(reading, fields[0], steps, per_step)

    return expect


def expect_list(reading: Reading, path: str, steps: int, per_step: int, *, with_data: bool = False) -> int:
    """Expect so many steps, and a list of a node's children, of which so many are one; how many in all."""
    node = _node(reading, path)
    if node is None or not node.children:
        return steps
    pause = reading.pause
    steps += len(node.children) // per_step
    pause.expect(steps)
    steps += node.names_size(pause) // BYTES_PER_STEP
    pause.expect(steps)
    if with_data:
        nodes = reading.tree.nodes
        steps += sum(nodes[below].size for below in pause.each(node.children)) // BYTES_PER_STEP
        pause.expect(steps)
    return steps


def _node(reading: Reading, path: str) -> Node | None:
    return reading.tree.nodes.get(path or ROOT)
