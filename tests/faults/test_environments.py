"""The world around the process: each environment is met by a server that serves, or by one clear line.

`unshare` makes most of them, in a user namespace, so that no right is needed. Where the kernel refuses that,
the tests are skipped; under CI=true they fail.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient

from codec.longs import hex64
from lab.client.blocking import Client
from lab.servers import BinaryMissing, EtcdServer, ZketcdServer, wait_until
from lab.servers.process import REPOSITORY, find_program
from proof.torture.host import HostClock
from tests.faults.conftest import Start
from tests.kazoo import kazoo

pytestmark = pytest.mark.real

_ROOT = ("--user", "--map-root-user")
_RUN = 'exec "$@"'


@cache
def _unshare(*options: str) -> tuple[str, ...]:
    """`unshare` with these options. Raises BinaryMissing where it cannot be used."""
    program = find_program("unshare", "apt install util-linux")
    tried = subprocess.run([program, *options, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise BinaryMissing(f"this user may not unshare {' '.join(options)}: {tried.stderr.strip()}")
    return (program, *options)


def _shell(script: str, *unshared: str) -> tuple[str, ...]:
    """Run the command behind this in a shell, after the script."""
    return (*(_unshare(*_ROOT, *unshared) if unshared else ()), "sh", "-ec", f"{script}\n{_RUN}", "sh")


def _hide(folder: str) -> tuple[str, ...]:
    return _shell(f"mount -t tmpfs -o size=4k,mode=0555,ro none {folder}", "--mount")


class Environment(NamedTuple):
    """One of the matrix."""

    within: Callable[[], tuple[str, ...]]
    options: dict[str, object] = {}  # noqa: RUF012 - of the server; nothing changes them
    data: str = ""  # the directory of the embedded etcd, if not the server's own


# A checkout may lie below it: that is put back.
_NO_TMP = f"""
mount -t tmpfs none /mnt
mkdir /mnt/checkout
mount --rbind {shlex.quote(str(REPOSITORY))} /mnt/checkout
mount -t tmpfs none /tmp
mkdir -p {shlex.quote(str(REPOSITORY))}
mount --rbind /mnt/checkout {shlex.quote(str(REPOSITORY))}
mount -o remount,ro /tmp
if touch /tmp/file 2>/dev/null; then exit 9; fi
"""
# In a mount namespace all is read-only, and the data are in a folder of memory.
_READ_ONLY = """
mount -t tmpfs none /mnt
sed 's/^[^ ]* \\([^ ]*\\) .*/\\1/' /proc/self/mounts | while read -r each; do
    case $each in /mnt|/proc*|/sys*|/dev*) ;; *) mount -o remount,bind,ro "$each" 2>/dev/null || true ;; esac
done
if touch /read-only 2>/dev/null; then exit 9; fi
"""

_ENVIRONMENTS = {
    "a user without a name": Environment(
        lambda: (
            *_unshare("--user", "--map-user=54321", "--map-group=54321"),
            *("env", "-u", "USER", "-u", "LOGNAME", "-u", "HOME"),
        ),
        {"audit_log": "-", "slow_request_ms": 1},
    ),
    "no HOME": Environment(lambda: ("env", "-u", "HOME")),
    "a read-only root": Environment(lambda: _shell(_READ_ONLY, "--mount"), data="/mnt/data"),
    "no /tmp": Environment(lambda: _shell(_NO_TMP, "--mount"), data="/mnt/data"),
    "no /proc": Environment(lambda: _hide("/proc")),
    "no devpts": Environment(lambda: _hide("/dev/pts")),
    "LANG=C": Environment(lambda: ("env", "LANG=C", "LC_ALL=C"), {"audit_log": "-"}),
    "a host name that does not resolve": Environment(lambda: _shell("hostname no-such-host", "--uts")),
    "a current directory that was deleted": Environment(
        lambda: _shell(f'export PYTHONPATH={shlex.quote(str(REPOSITORY))}; cd "$(mktemp -d)"; rmdir "$PWD"')
    ),
    "no IPv6": Environment(
        lambda: _shell("ip link set lo up; ip -6 addr flush dev lo", "--net"), {"listen": ":0"}
    ),
    "no environment": Environment(lambda: ("env", "-i", "PYTHONUNBUFFERED=1")),
}


_CLOSED = ("sh", "-c", 'exec "$@" <&- 2>&-', "sh")  # what is printed goes somewhere, or a command fails


def _port(server: ZketcdServer) -> int:
    found = re.search(r"^ready: .* clients on \S+:(\d+),", server.log_text(), re.MULTILINE)
    assert found is not None, server.log_text()
    return int(found[1])


def _serves(client: KazooClient) -> None:
    """The client creates a node, reads it, and gets an event of a change."""
    path, changed = f"/ä-{time.monotonic_ns()}", threading.Event()
    client.create(path, b"1")
    assert client.get(path, watch=lambda _event: changed.set())[0] == b"1"
    client.set(path, b"2")
    assert changed.wait(60)


def _in_its_network(server: ZketcdServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python within the network namespace of the server."""
    enter = find_program("nsenter", "apt install util-linux")
    return subprocess.run(
        [
            *(enter, f"--target={server.pid}", "--user", "--net", "--preserve-credentials"),
            *(sys.executable, *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, "ZKETCD_LISTEN": f":{_port(server)}"},
    )


def _serves_in_its_network(server: ZketcdServer, host: str) -> None:
    """As `_serves`, from within the network namespace of the server."""
    done = _in_its_network(server, "-m", __name__, f"{host}:{_port(server)}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", _ENVIRONMENTS)
def test_the_server_serves(name: str, start: Start) -> None:
    environment = _ENVIRONMENTS[name]
    arguments = ("--data-dir", environment.data) if environment.data else ()
    server = start(None, within=environment.within(), arguments=arguments, **environment.options)
    if name == "no IPv6":
        _serves_in_its_network(server, "127.0.0.1")
    else:
        with kazoo(server) as client:
            _serves(client)
    assert server.stop() == 0
    assert "Traceback" not in server.log_text()
    if "audit_log" in environment.options:
        assert re.search(r"\tuser=\S*\t?.*operation=create\t", server.log_text())
    if name == "a user without a name":
        assert "user=54321\toperation=serverStart" in server.log_text()


def test_kill_session_of_a_user_without_a_name(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    server = start(etcd_server, prefix=etcd_prefix)
    with Client(server.port) as client:
        command = [
            *_ENVIRONMENTS["a user without a name"].within(),
            *(sys.executable, "-m", "zketcd", "kill-session", hex64(client.id)),
            *("--etcd", etcd_server.endpoint, "--prefix", etcd_prefix),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
        assert (done.returncode, done.stderr) == (0, "")
        wait_until(lambda: "killed by 54321@" in server.log_text(), "the end of the session", timeout=60)


# Several in one process: a start takes longer than what a command does.
_COMMANDS = """
import json, sys
from zketcd.__main__ import entry

for command in json.loads(sys.argv[1]):
    sys.argv[1:] = command
    code = entry()
    # `check` says with 1 that something is doubtful, such as this etcd.
    if code > (command[0] == "check"):
        sys.exit(f"{command}: {code}")
"""


@pytest.fixture(scope="module")
def commands(etcd_server: EtcdServer) -> Iterator[list[tuple[str, ...]]]:
    """Those of a server, and of its tree in etcd."""
    prefix = f"/test-{os.getpid()}-environments"
    with ZketcdServer(etcd_server.endpoint, prefix=prefix) as server:
        with kazoo(server) as client:
            client.create("/ä", b"data")
        tree = ("--etcd", etcd_server.endpoint, "--prefix", prefix)
        yield [
            ("ls", "/", *tree),
            ("get", "/ä", *tree),
            ("check", *tree, "--listen", "127.0.0.1:0", "--admin-listen", "none"),
            ("shell", "--server", server.address, "ls", "/"),
            ("inspect", "--no-spark", f"etcd://{etcd_server.address}{prefix}"),
        ]


def _run(commands: Sequence[Sequence[str]], within: Sequence[str]) -> None:
    done = subprocess.run(
        [*within, sys.executable, "-c", _COMMANDS, json.dumps(commands)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=240,
        check=False,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, (done.stderr, done.stdout)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", [name for name in _ENVIRONMENTS if name != "no IPv6"])
def test_the_commands_run(name: str, commands: Sequence[Sequence[str]]) -> None:
    _run(commands, _ENVIRONMENTS[name].within())


def test_the_commands_run_with_closed_descriptors(commands: Sequence[Sequence[str]]) -> None:
    for command in commands:  # what the first one opens is open for the next
        _run([command], _CLOSED)


def test_no_ipv4(start: Start, tmp_path: Path) -> None:
    """A host with IPv6 alone: etcd, clients, the health check, the admin port and the port of the proxies."""
    program, url, peers = EtcdServer().command()[0], "http://[::1]:2379", "http://[::1]:2380"
    etcd = (
        f"setpriv --pdeathsig KILL {program} --data-dir={tmp_path}/etcd --log-level=error --name=six"
        f" --listen-client-urls={url} --advertise-client-urls={url} --listen-peer-urls={peers}"
        f" --initial-advertise-peer-urls={peers} --initial-cluster=six={peers} &"
    )
    server = start(
        url,
        within=_shell(f"ip link set lo up; ip addr del 127.0.0.1/8 dev lo\n{etcd}", "--net"),
        listen="*:0",
        admin_listen=":0",
        peer_listen=":0",
        peer_advertise="[::1]:2191",
    )
    assert re.search(r"^ready: .* admin HTTP server on \[::\]:\d+", server.log_text(), re.MULTILINE)
    _serves_in_its_network(server, "[::1]")
    check = _in_its_network(server, str(REPOSITORY / "deploy" / "healthcheck.py"), "ready")
    assert check.returncode == 0, check.stderr
    assert server.stop() == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors(closed: str, start: Start, etcd_server: EtcdServer, etcd_prefix: str) -> None:
    server = ZketcdServer(
        etcd_server.endpoint, prefix=etcd_prefix, within=("sh", "-c", f'exec "$@" {closed}', "sh")
    )
    try:
        server.launch()
        with kazoo(server) as client:
            _serves(client)
        names = {os.readlink(f"/proc/{server.pid}/fd/{number}") for number in range(3)}
        assert all(name == os.devnull or name == str(server.log_path) for name in names), names
        assert server.stop() == 0
    finally:
        server.close()


def test_messages_that_nobody_reads(etcd_server: EtcdServer, etcd_prefix: str) -> None:
    """Neither the start, nor sessions, nor the end wait for a reader; it learns what it has missed."""
    server = ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, log_level="DEBUG", audit_log="-")
    read, write = os.pipe()
    process = subprocess.Popen([*server.command()], stdout=write, stderr=write, cwd=REPOSITORY)
    os.close(write)
    try:
        with kazoo(server) as client:
            _serves(client)
            node = client.create("/large-", b"x" * 10, sequence=True)
            for _ in range(40):
                for result in [client.set_async(node, b"") for _ in range(250)]:
                    result.get(60)
            with Client(server.port) as other:
                assert other.stat(node) is not None
            with os.fdopen(read, "rb", closefd=False) as reader:
                # Half a line may be what is left of the pipe.
                wait_until(
                    lambda: b" lines of messages were dropped: " in reader.readline(),
                    "how many were lost",
                    timeout=120,
                    interval=0.0,  # thousands of lines come before it
                )
                _serves(client)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(read)
        server.close()


def test_the_reader_of_the_messages_has_ended(etcd_server: EtcdServer, etcd_prefix: str) -> None:
    server = ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix)
    read, write = os.pipe()
    process = subprocess.Popen([*server.command()], stdout=write, stderr=write, cwd=REPOSITORY)
    os.close(write)
    os.close(read)
    try:
        with kazoo(server) as client:
            os.kill(process.pid, signal.SIGPIPE)
            _serves(client)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        server.close()


def test_a_sleep_longer_than_the_lease(start: Start, etcd_server: EtcdServer, etcd_prefix: str) -> None:
    server = start(etcd_server, prefix=etcd_prefix, proxy_lease=2)
    with kazoo(server) as client:
        server.pause()
        time.sleep(5)
        server.resume()
        client.retry(_serves, client)
    assert server.stop() == 0


@pytest.mark.parametrize("hours", [2, -3])
def test_a_clock_that_jumps(
    hours: int, start: Start, etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path
) -> None:
    clock = HostClock(tmp_path)
    if not clock.environment():
        raise BinaryMissing("faketime is not installed: make setup-test")
    server = start(etcd_server, prefix=etcd_prefix, variables=clock.environment())
    with kazoo(server) as client:
        ephemeral = client.create("/ephemeral", ephemeral=True)
        made = client.get(ephemeral)[1].ctime
        clock.set(hours * 3600)

        def has_jumped() -> bool:
            _serves(client)
            later = int(client.set(ephemeral, b"").mtime) - int(made)
            return bool(abs(later - hours * 3_600_000) < 600_000)

        wait_until(has_jumped, "the other time", timeout=60)
        assert client.exists(ephemeral)
    assert server.stop() == 0


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGUSR2])
def test_a_reload_by_a_signal_keeps_the_clients(
    signum: int, start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    server = start(etcd_server, prefix=etcd_prefix)
    with kazoo(server) as client:
        session = client.client_id
        os.kill(server.pid, signum)
        wait_until(lambda: server.times_ready == 2, "the process that takes over", timeout=60)
        _serves(client)
        assert client.client_id == session
    assert server.stop() == 0


def test_sighup_is_survived_where_no_process_can_take_over(start: Start) -> None:
    server = start(None)
    with kazoo(server) as client:
        os.kill(server.pid, signal.SIGHUP)
        wait_until(lambda: "no upgrade: etcd is embedded" in server.log_text(), "why", timeout=60)
        _serves(client)
    assert server.stop() == 0


def test_a_terminal_that_is_closed_drains(etcd_server: EtcdServer, etcd_prefix: str) -> None:
    server = ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix)
    try:
        ours, theirs = os.openpty()
    except OSError as error:
        raise BinaryMissing(f"no terminal can be made: {error}") from None
    process = subprocess.Popen([*server.command()], stdin=theirs, start_new_session=True, cwd=REPOSITORY)
    try:
        with kazoo(server) as client:
            _serves(client)
            process.send_signal(signal.SIGHUP)
            assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)
        server.close()


if __name__ == "__main__":
    with kazoo(sys.argv[1]) as the_client:
        _serves(the_client)
