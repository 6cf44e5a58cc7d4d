"""What an operator does to an etcd in service, as faults: members change, restart, are defragmented, lead.

Each runs in a thread until it is done, and `end` waits for that. An operator whose command fails, since etcd
elects or another fault lasts, tries again.
"""

import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from lab.servers import StartFailed
from lab.servers.operator import etcdctl
from proof.torture.cluster import Cluster, Member

_TRIES = 60.0  # seconds for one step
_PAUSE = 0.5  # seconds between two tries
_BETWEEN = 2.0  # seconds between two members: etcd refuses to change while one has just come

KINDS = {
    "defrag": "defragmentation of etcd, one member after another",
    "move-leader": "etcd's leadership is moved to another member, each two seconds",
    "rolling-restart": "SIGTERM of etcd's members, one after another; each serves again before the next one",
    "replace-member": "a member of etcd is removed, and a new one with empty data takes its place",
}
"""All of them."""

_FAILURES = (RuntimeError, OSError, StartFailed, subprocess.SubprocessError)


class Begun(NamedTuple):
    """What an operator has begun."""

    what: str
    end: Callable[[], None]
    """Wait until it is done."""


class Maintenance:
    """All kinds, on one cluster."""

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self._cluster = cluster
        self._random = chance
        self._begin: dict[str, Callable[[], Begun]] = {
            "defrag": self._defrag,
            "move-leader": self._move_leader,
            "rolling-restart": self._rolling_restart,
            "replace-member": self._replace_member,
        }

    def begin(self, kind: str) -> Begun:
        """Begin one."""
        return self._begin[kind]()

    def _in_turn(self) -> list[Member]:
        members = list(self._cluster.members)
        self._random.shuffle(members)
        return members

    def _defrag(self) -> Begun:
        members = self._in_turn()

        def work(_over: threading.Event) -> None:
            for member in members:
                _until_done(partial(etcdctl, member, "defrag"))

        return _in_thread(", ".join(member.host for member in members), work)

    def _move_leader(self) -> Begun:
        chance = random.Random(self._random.random())

        def work(over: threading.Event) -> None:
            while not over.is_set():
                leader = self._cluster.leader()
                if leader is not None:
                    others = [member for member in self._cluster.members if member is not leader]
                    try:
                        etcdctl(leader, "move-leader", chance.choice(others).id)
                    except _FAILURES:
                        over.wait(_PAUSE)
                        continue
                over.wait(_BETWEEN)

        return _in_thread("", work)

    def _rolling_restart(self) -> Begun:
        members = self._in_turn()

        def work(_over: threading.Event) -> None:
            for member in members:
                if member.alive:
                    member.stop()
                _until_done(partial(_start, member))
                time.sleep(_BETWEEN)

        return _in_thread(", ".join(member.host for member in members), work)

    def _replace_member(self) -> Begun:
        member = self._random.choice(self._cluster.members)
        other = next(each for each in self._cluster.members if each is not member)

        def work(_over: threading.Event) -> None:
            _until_done(partial(_remove, other, member))
            member.joins = True
            if member.alive:
                member.kill()
            shutil.rmtree(member.data_dir, ignore_errors=True)
            _until_done(partial(_add, other, member))
            _until_done(partial(_start, member))
            self._cluster.learn_ids()

        return _in_thread(member.host, work)


def _remove(other: Member, member: Member) -> None:
    """Remove a member, which may be done already: the answer to the first try was lost."""
    try:
        etcdctl(other, "member", "remove", member.id)
    except RuntimeError as error:
        if "not found" not in str(error):
            raise


def _add(other: Member, member: Member) -> None:
    """Add it again, likewise."""
    try:
        etcdctl(other, "member", "add", member.host, f"--peer-urls={member.peer_url}")
    except RuntimeError as error:
        if "already exists" not in str(error):
            raise


def _start(member: Member) -> None:
    """Another fault that ends may start it, too."""
    if not member.alive:
        member.launch()
    member.wait_until_serving()


def _until_done(act: Callable[[], object]) -> None:
    """Try until it succeeds; an operator has a minute for it."""
    deadline = time.monotonic() + _TRIES
    while True:
        try:
            act()
            return
        except _FAILURES:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)


def _in_thread(what: str, work: Callable[[threading.Event], None]) -> Begun:
    over = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work(over)
        except BaseException as error:  # noqa: BLE001 - `end` raises it
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def end() -> None:
        over.set()
        thread.join()
        if failed:
            raise failed[0]

    return Begun(what, end)
