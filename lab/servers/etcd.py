"""A real single-node etcd."""

import functools
import http.client
import json
import os
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lab.servers.ports import free_port
from lab.servers.process import REPOSITORY, BinaryMissing, ServerProcess
from proxy.etcd.embedded import Binary, EmbeddedEtcdError, find_binary

#: Those that users run and Debian has, oldest first: .cache has them.
VERSIONS = ("3.4.23", "3.5.16", "3.5.30")


def etcd_program(version: str = "") -> str:
    """The path of an etcd: of this version, else that of the variable ZKETCD_TEST_ETCD, else zketcd's choice.

    Raises BinaryMissing.
    """
    version = version or os.environ.get("ZKETCD_TEST_ETCD", "")
    if not version:
        return _embedded().path
    program = REPOSITORY / ".cache" / f"etcd-{version}" / "usr" / "bin" / "etcd"
    if not program.exists():
        raise BinaryMissing(f"etcd {version} is not in .cache: make setup-test fetches it")
    return str(program)


def etcd_version() -> str:
    """The version of the etcd that is started where none is named, e.g. "3.5.30". Raises BinaryMissing."""
    return os.environ.get("ZKETCD_TEST_ETCD", "") or _embedded().version


@functools.cache
def _embedded() -> Binary:
    try:
        # In a thread: the caller may be a coroutine, and zketcd's code must not block its loop.
        with ThreadPoolExecutor(1) as thread:
            binary = thread.submit(find_binary).result()
    except EmbeddedEtcdError as error:
        raise BinaryMissing(str(error)) from None
    if binary.trial_only:
        raise BinaryMissing(
            "tests kill etcd, and the only one found is for trials: make setup fetches another"
        )
    return binary


class EtcdServer(ServerProcess):
    """etcd, with default limits unless `arguments` differ. `port` is the client port, `endpoint` its URL."""

    kind = "etcd"

    def __init__(
        self, *arguments: str, version: str = "", port: int | None = None, start_timeout: float = 60.0
    ) -> None:
        """`arguments` go to etcd as they are, e.g. "--quota-backend-bytes=16777216".

        `version`: see `etcd_program`.
        """
        super().__init__(port=port, start_timeout=start_timeout)
        self.peer_port = free_port()
        self.next_version = version  # that the next start runs
        self._arguments = arguments

    @property
    def endpoint(self) -> str:
        """The client URL, for `--etcd`."""
        return f"http://{self.address}"

    def command(self) -> Sequence[str]:
        """etcd's command line."""
        peer = f"http://127.0.0.1:{self.peer_port}"
        return [
            etcd_program(self.next_version),
            f"--data-dir={self.data_dir}",
            "--name=test",
            f"--listen-client-urls={self.endpoint}",
            f"--advertise-client-urls={self.endpoint}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=test={peer}",
            "--logger=zap",
            "--log-level=warn",
            *self._arguments,
        ]

    def serves(self) -> bool:
        """Whether etcd says that it is healthy: it has a leader and commits."""
        try:
            return b'"health":"true"' in self._http("/health")
        except (OSError, http.client.HTTPException):
            return False

    def version(self) -> str:
        """What it says of itself."""
        return str(json.loads(self._http("/version"))["etcdserver"])

    def metrics(self) -> dict[str, float]:
        """etcd's Prometheus metrics: the sample with its labels as etcd writes it -> value."""
        samples: dict[str, float] = {}
        for line in self._http("/metrics").decode().splitlines():
            if line and not line.startswith("#"):
                sample, _, value = line.rpartition(" ")
                samples[sample] = float(value)
        return samples

    def metric(self, name: str, **labels: str) -> float:
        """The sum of all samples of one metric that have all the given labels; 0 if there is none."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(
            value
            for sample, value in self.metrics().items()
            if sample.partition("{")[0] == name and all(label in sample for label in wanted)
        )

    def _http(self, path: str) -> bytes:
        with urllib.request.urlopen(self.endpoint + path, timeout=5) as response:
            body: bytes = response.read()
        return body
