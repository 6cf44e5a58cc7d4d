"""What the workloads do not show: idle sessions, memory, starts, a far etcd, long requests, upgrades, moves.

`python -m bench.scenarios` runs them beside real ZooKeeper where it can do the same, prints Markdown tables
and writes JSON. Each file holds one scenario, a function of its size that returns a `Table`; but `crowd`,
`locks`, `many_inserts` and `many_servers` hold parts of them.
"""

from typing import NamedTuple

Cell = str | int | float


class Table(NamedTuple):
    """What a scenario found."""

    title: str
    head: list[str]
    rows: list[list[Cell]]


def shown(cell: Cell) -> str:
    """A figure as a table has it: three digits that count, thousands apart."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 100:
        return f"{cell:,.0f}"
    return f"{cell:.3g}"


def markdown(table: Table) -> str:
    """The table, under its title."""
    lines = [table.head, ["---", *["--:"] * (len(table.head) - 1)], *(map(shown, row) for row in table.rows)]
    return "\n".join([f"### {table.title}", "", *(f"| {' | '.join(line)} |" for line in lines)])
