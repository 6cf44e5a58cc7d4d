"""ZooKeeper's transactions of random histories: what zketcd's state machine makes of random requests."""

from collections.abc import Iterator

from codec.constants import OpCode
from pipeline.follow.recording import Recorder
from pipeline.formats import log, transactions
from pipeline.formats.log import Entry
from pipeline.table import TransactionRow
from proxy.state.capture import new_machine, pages
from proxy.state.machine import Machine
from proxy.state.outcome import Outcome
from schema.entry import Request
from tests.pipeline.trees import transaction
from tests.proxy.state.world import RULES, Said, request_of


class History:
    """A machine, and the transactions of all it did."""

    def __init__(self) -> None:
        self.machine = new_machine(1)
        self.recorder = Recorder(self.machine)
        self.transactions: list[list[TransactionRow]] = []

    def executed(self, request: Request, outcome: Outcome) -> None:
        """Keep the transaction."""
        rows = self.recorder.taken(request, outcome)
        if rows:
            self.transactions.append(rows)

    def enter(self, holder: str, clock: int, asked: list[Said]) -> None:
        """One entry."""
        machine = self.machine
        machine.begin(holder, machine.applied.get(holder, 0) + 1, clock, RULES)
        for single in asked:
            request = request_of(single)
            self.executed(request, machine.execute(request))
        machine.end()


def parsed(rows: list[TransactionRow]) -> list[TransactionRow]:
    """Through the bytes of a log, and back."""
    body = transactions.pack(rows)
    return list(transactions.rows(Entry(log.HEADER_SIZE, body), "log.1", "log.1"))


def node_pages(machine: Machine) -> list[bytes]:
    """All nodes, and nothing else of the state."""
    return list(pages(machine).node_pages)


def creates(first: int, count: int) -> Iterator[list[TransactionRow]]:
    """Transactions that create /n<zxid>."""
    for zxid in range(first, first + count):
        row = transaction(zxid, OpCode.CREATE, f"/n{zxid:x}", data=b"", owner=0)
        yield [row._replace(parent_cversion=None)]
