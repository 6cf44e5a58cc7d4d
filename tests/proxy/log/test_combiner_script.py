"""The script of the combiner: `combiner.txt`. Time passes, and etcd answers, when the script says so.

Inputs. An offer is the name of a proxy and the number of its entry, as a1; a1*60000 has so many bytes.

add OFFERS      entries come in one turn of the event loop; a1..40 are many
pass MS         time passes, in milliseconds
ok N            the Txn N takes effect
fail N          etcd refuses the Txn N, because one of its compares failed
unknown N       whether the Txn N has taken effect is not known
forget NAME     the connection or incarnation of this proxy is over
round trip MS   what a Txn takes, as far as the combiner knows
close           this proxy combines no more

Outputs: what the proxies are told; Txns, numbered, with their entries in the order of the puts; for how long
the combiner waits for more entries.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest import mock

import pytest

from lab.fakes.clock import FakeClock
from lab.fakes.connection import FakeLoop, FakeTimer
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.model import EtcdError, EtcdUnknown, Put, Txn, TxnResult
from proxy.log.combine.combiner import Combiner, Offer
from proxy.log.status import Stats
from schema.keys import Keyspace
from tests import golden

KEYS = Keyspace("/t")
SCRIPT = Path(__file__).with_name("combiner.txt")
_Outcome = TxnResult | EtcdError
_OUTCOMES: dict[str, _Outcome] = {
    "ok": TxnResult(True, 9, []),
    "fail": TxnResult(False, 9, []),
    "unknown": EtcdUnknown("no answer"),
}


class SlowEtcd(FakeEtcdClient):
    """Answers when a test says so."""

    def __init__(self) -> None:
        super().__init__(FakeEtcd())
        self.begun: list[tuple[Txn, Callable[[_Outcome], None]]] = []

    def begin_txn(self, txn: Txn, timeout: float, on_answer: Callable[[_Outcome], None]) -> mock.Mock:
        self.begun.append((txn, on_answer))
        return mock.Mock()


class World:
    """A combiner and its etcd."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = FakeLoop()
        self.clock = FakeClock(self.loop.now)
        self.etcd = SlowEtcd()
        self.stats = Stats()
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "get_running_loop", lambda: self.loop)
            self.combiner = Combiner(self.etcd, KEYS, self.clock, self.stats)
        self.told: dict[str, list[str]] = {"refused": [], "in the log": []}
        self.seen = 0
        self.timers: list[FakeTimer] = []

    def answer(self, words: Sequence[str]) -> list[str]:
        """Do what the script says; what comes out."""
        match words:
            case ["add", *offers]:
                for each in offers:
                    first, _, last = each.partition("..")
                    for number in range(int(first[1:]), int(last) + 1) if last else ():
                        self._add(f"{first[0]}{number}")
                    if not last:
                        self._add(each)
                self.loop.run()
            case ["pass", milliseconds]:
                self.clock.now += float(milliseconds) / 1000
                self.loop.wait(float(milliseconds) / 1000)
            case ["forget", name]:
                self.combiner.forget(name)
            case ["round", "trip", milliseconds]:
                self.combiner._round_trip = int(milliseconds) / 1000
            case ["close"]:
                self.combiner.close()
            case [outcome, number]:
                _, answered = self.etcd.begun[int(number) - 1]
                answered(_OUTCOMES[outcome])
        told = [f"{what}: {' '.join(names)}" for what, names in self.told.items() if names]
        self.told = {what: [] for what in self.told}
        return [*told, *self._txns(), *self._waiting()]

    def _add(self, text: str) -> None:
        name, _, size = text.partition("*")
        self.combiner.add(
            Offer(
                name[0],
                5,
                int(name[1:]),
                bytes(int(size or 4)),
                lambda: self.told["refused"].append(name),
                lambda *_: self.told["in the log"].append(name),
            )
        )

    def _txns(self) -> Iterator[str]:
        for number, (txn, _) in enumerate(self.etcd.begun[self.seen :], self.seen + 1):
            keys = [KEYS.parse(put.key) for put in txn.success if isinstance(put, Put)]
            yield f"Txn {number}: {' '.join(f'{key.incarnation}{key.number}' for key in keys)}"
        self.seen = len(self.etcd.begun)

    def _waiting(self) -> Iterator[str]:
        timers = [timer for timer in self.loop.timers if not timer.cancelled]
        if timers != self.timers:
            waits = " ".join(f"for {1000 * (timer.due - self.loop.now):.1f} ms" for timer in timers)
            yield f"waits {waits or 'no more'}"
        self.timers = timers


@golden.one_by_one(SCRIPT)
def test_script(monkeypatch: pytest.MonkeyPatch, case: golden.Case) -> None:
    golden.check(SCRIPT, case, World(monkeypatch).answer)
