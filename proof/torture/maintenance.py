"""What an operator does in service, as faults: etcd's members change, restart, are defragmented, lead;
proxies are upgraded.

Each runs in a thread until it is done, and `end` waits for that. An operator whose command fails, since etcd
elects or another fault lasts, tries again.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lab.servers import StartFailed
from lab.servers.operator import etcdctl
from proof.simulation.proxies import PREFIX
from proof.torture.acts import Fault, in_thread
from proof.torture.cluster import ROOT, USER, Cluster, Member, TorturedProxy, initial_cluster, write_password

_TRIES = 60.0  # seconds for one step
_PAUSE = 0.5  # seconds between two tries
_BETWEEN = 2.0  # seconds between two members: etcd refuses to change while one has just come
_LATE = 1.0  # seconds between the change of a password in etcd and in the proxies' file
_EARLY = 0.3  # of the new processes that are killed are so while they start
_START = 1.0  # seconds that one takes to start
_TAKES = 0.04  # seconds that it takes to take over
_POLL = 0.002
_READY = " is ready to take over"
_GAVE = " connections away; "

_FAILURES = (RuntimeError, OSError, StartFailed, subprocess.SubprocessError)


class Kind(NamedTuple):
    """One kind of fault."""

    what: str
    """For people."""
    begin: Callable[[Cluster, random.Random], Fault]
    """Make one fault; what is left to chance, the seed decides. Blocks.

    Where another fault has left nothing to do, it does nothing.
    """


def _in_turn(cluster: Cluster, chance: random.Random) -> list[Member]:
    return chance.sample(cluster.members, len(cluster.members))


def _defrag(cluster: Cluster, chance: random.Random) -> Fault:
    members = _in_turn(cluster, chance)

    def work(_over: threading.Event) -> None:
        for member in members:
            _until_done(partial(etcdctl, member, "defrag"))

    return _begun(", ".join(member.host for member in members), work)


def _move_leader(cluster: Cluster, chance: random.Random) -> Fault:
    chance = random.Random(chance.random())  # of its thread

    def work(over: threading.Event) -> None:
        while not over.is_set():
            leader = cluster.leader()
            if leader is not None:
                others = [member for member in cluster.members if member is not leader]
                try:
                    etcdctl(leader, "move-leader", chance.choice(others).id)
                except _FAILURES:
                    over.wait(_PAUSE)
                    continue
            over.wait(_BETWEEN)

    return _begun("", work)


def _rolling_restart(cluster: Cluster, chance: random.Random) -> Fault:
    members = _in_turn(cluster, chance)

    def work(_over: threading.Event) -> None:
        for member in members:
            if member.alive:
                member.stop()
            _until_done(partial(_start, member))
            time.sleep(_BETWEEN)

    return _begun(", ".join(member.host for member in members), work)


def _replace_member(cluster: Cluster, chance: random.Random) -> Fault:
    member = chance.choice(cluster.members)
    other = next(each for each in cluster.members if each is not member)

    def work(_over: threading.Event) -> None:
        _until_done(partial(_remove, other, member))
        if member.alive:
            member.kill()
        shutil.rmtree(member.data_dir, ignore_errors=True)
        _join(cluster, other, member)

    return _begun(member.host, work)


def _add_member(cluster: Cluster, chance: random.Random) -> Fault:
    other = chance.choice(cluster.members)

    def work(over: threading.Event) -> None:
        with cluster.another_member() as member:
            _join(cluster, other, member)
            over.wait()
            _until_done(partial(_remove, other, member))

    return _begun(f"by {other.host}", work)


def _restore(cluster: Cluster, _chance: random.Random) -> Fault:
    members = cluster.members

    def work(_over: threading.Event) -> None:
        for member in members:
            if member.alive:
                member.stop()  # it writes all that it has applied into its database
        newest = max(members, key=lambda member: _revision(_database(member)))
        with tempfile.TemporaryDirectory(prefix="zketcd-torture-") as folder:
            backup = Path(folder, "backup")
            shutil.copyfile(_database(newest), backup)
            for member in members:
                _restore_from(backup, member, initial_cluster(members), Path(folder, member.host))
        for member in members:
            if not member.alive:
                member.launch()
        for member in members:
            member.wait_until_serving()
        cluster.learn_members(members[0])

    return _begun("", work)


def _join(cluster: Cluster, other: Member, member: Member) -> None:
    """Make a member part of etcd."""
    member.joins = True
    _until_done(partial(_add, other, member))
    _until_done(partial(_start_joined, cluster, other, member))


def _start_joined(cluster: Cluster, other: Member, member: Member) -> None:
    cluster.learn_members(other)
    _start(member)


def _password(cluster: Cluster, chance: random.Random) -> Fault:
    """Either the proxies' file or etcd is changed first, and the other up to a second later."""
    members = cluster.members
    chance = random.Random(chance.random())  # of its thread
    _until_done(partial(_enable_authentication, members[0]))

    def work(over: threading.Event) -> None:
        while not over.is_set():
            password = f"{chance.getrandbits(64):x}"
            acts = [
                partial(write_password, cluster.password_file, password),
                partial(_until_done, partial(_change_password, chance.choice(members), password)),
            ]
            chance.shuffle(acts)
            acts[0]()
            time.sleep(chance.uniform(0, _LATE))
            acts[1]()
            over.wait(_BETWEEN)
        # Commands of other faults have no password.
        _until_done(partial(_as_root, members[0], "auth", "disable"))

    return _begun("", work)


def _upgrade(cluster: Cluster, chance: random.Random) -> Fault:
    proxies = chance.sample(cluster.proxies, len(cluster.proxies))

    def work(_over: threading.Event) -> None:
        for proxy in proxies:
            _until_done(partial(_upgraded, proxy))

    return _begun(", ".join(proxy.host for proxy in proxies), work)


def _failed_upgrade(cluster: Cluster, chance: random.Random) -> Fault:
    proxy = chance.choice(cluster.proxies)
    chance = random.Random(chance.random())  # of its thread

    def work(over: threading.Event) -> None:
        while not over.is_set() and proxy.alive:
            with contextlib.suppress(*_FAILURES):  # another fault has ended the proxy
                _fail_to_upgrade(proxy, chance)

    return _begun(proxy.host, work)


def _fail_to_upgrade(proxy: TorturedProxy, chance: random.Random) -> None:
    """Begin an upgrade, and kill the new process: while it starts, or more often while it takes over."""
    log = proxy.messages_from_now()
    upgrade = threading.Thread(target=_try_to_upgrade, args=(proxy,), daemon=True)
    upgrade.start()
    if chance.random() < _EARLY:
        time.sleep(chance.uniform(0, _START))
    else:
        while upgrade.is_alive() and _READY not in log():
            time.sleep(_POLL)
        time.sleep(chance.uniform(0, _TAKES))
    heirs = proxy.heirs()
    for heir in heirs:
        with contextlib.suppress(ProcessLookupError):
            os.kill(heir, signal.SIGKILL)
    upgrade.join()
    if heirs and _GAVE in log():  # too late for the old process to continue
        proxy.kill()


def _try_to_upgrade(proxy: TorturedProxy) -> None:
    with contextlib.suppress(*_FAILURES):
        proxy.upgrade()


def _upgraded(proxy: TorturedProxy) -> None:
    """Upgrade a proxy, unless another fault has ended it."""
    if proxy.alive:
        said = proxy.upgrade()
        if "has taken over" not in said:
            raise RuntimeError(said)


def _database(member: Member) -> Path:
    return member.data_dir / "member" / "snap" / "db"


def _revision(database: Path) -> int:
    status = etcdctl(None, "snapshot", "status", str(database), "--write-out=json")
    return int(json.loads(status)["revision"])


def _restore_from(backup: Path, member: Member, everybody: str, made: Path) -> None:
    """Give a stopped member the data of a new cluster."""
    etcdctl(
        *(None, "snapshot", "restore", str(backup), "--skip-hash-check", f"--data-dir={made}"),
        *(f"--name={member.host}", f"--initial-cluster={everybody}"),
        f"--initial-advertise-peer-urls={member.peer_url}",
        f"--initial-cluster-token={made.parent}",
    )
    shutil.rmtree(member.data_dir / "member")  # its folder may be a file system of its own
    shutil.move(made / "member", member.data_dir)


def _remove(other: Member, member: Member) -> None:
    """Remove a member, which may be done already: the answer to the first try was lost."""
    try:
        etcdctl(other, "member", "remove", member.id)
    except RuntimeError as error:
        if "not found" not in str(error):
            raise


def _add(other: Member, member: Member) -> None:
    """Add a member again, likewise."""
    try:
        etcdctl(other, "member", "add", member.host, f"--peer-urls={member.peer_url}")
    except RuntimeError as error:
        if "already exists" not in str(error):
            raise


def _start(member: Member) -> None:
    """Start a member, unless another fault that ended has done so."""
    if not member.alive:
        member.launch()
    member.wait_until_serving()


def _enable_authentication(member: Member) -> None:
    """With root, and the proxies' user, who may be there from the last time."""
    permission = ("grant-permission", USER, "readwrite", "--prefix=true", PREFIX)
    for arguments in (
        *(("user", "add", f"{name}:{name}") for name in (ROOT, USER)),
        *(("role", "add", name) for name in (ROOT, USER)),
        ("role", *permission),
        *(("user", "grant-role", name, name) for name in (ROOT, USER)),
    ):
        try:
            etcdctl(member, *arguments)
        except RuntimeError as error:
            if "already" not in str(error):
                raise
    etcdctl(member, "auth", "enable")


def _as_root(member: Member, *arguments: str, given: str = "") -> None:
    etcdctl(member, f"--user={ROOT}:{ROOT}", *arguments, given=given)


def _change_password(member: Member, password: str) -> None:
    _as_root(member, "user", "passwd", USER, "--interactive=false", given=f"{password}\n")


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


def _begun(what: str, work: Callable[[threading.Event], None]) -> Fault:
    """Something that an operator begins, and whose end is waited for."""
    return Fault(what, in_thread(work), last=True)


KINDS: dict[str, Kind] = {
    "defrag": Kind("defragmentation of etcd, one member after another", _defrag),
    "move-leader": Kind("etcd's leadership is moved to another member, each two seconds", _move_leader),
    "rolling-restart": Kind(
        "SIGTERM of etcd's members, one after another; each serves again before the next one",
        _rolling_restart,
    ),
    "replace-member": Kind(
        "a member of etcd is removed, and a new one with empty data takes its place", _replace_member
    ),
    "add-member": Kind("a fourth member joins etcd, and is removed at the end", _add_member),
    "restore": Kind(
        "etcd is stopped, and all members are restored, as a new cluster, from what one of them has", _restore
    ),
    "password": Kind(
        "etcd has authentication meanwhile, and the proxies' password is changed again and again", _password
    ),
    "upgrade": Kind("`zketcd upgrade` of all proxies, one after another", _upgrade),
    "failed-upgrade": Kind(
        "`zketcd upgrade` of a proxy, again and again, whose new process is killed on the way",
        _failed_upgrade,
    ),
}
"""All of them."""
