"""etcd's own status, read periodically, so that metrics can show it without a request to etcd.

Its quota is read with it, from etcd's metrics: before 3.6 no answer has it. So is what some versions tell
only to root (see EtcdClient.status).

Each endpoint's member is asked for its version. If that has known bugs, a warning is logged.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError, Status
from proxy.etcd.versions import warnings
from proxy.support.environment import HOST, Clock
from proxy.support.tasks import together
from proxy.support.throttled_log import ThrottledLog

if TYPE_CHECKING:
    from proxy.etcd.metrics import Metrics  # a start does not wait for an HTTP client

ReadMetrics: TypeAlias = Callable[[str], Awaitable["Metrics | None"]]
"""Reads the metrics of the member at HOST:PORT; None if it does not show them."""

log = logging.getLogger(__name__)

_QUOTA_EVERY = 60.0  # seconds: a member may be started again with another quota
_VERSIONS_EVERY = 10.0  # seconds
_TIMEOUT = 5.0
_LONG = 60.0  # seconds without an answer, after which a warning says so


class StatusPoller:
    """The last status of the member in use."""

    def __init__(
        self,
        etcd: Etcd,
        learned: Callable[[int, int], float],
        learned_versions: Callable[[Sequence[str]], None],
        read_metrics: ReadMetrics | None = None,
        clock: Clock = HOST.clock,
    ) -> None:
        """`learned` takes the size in use and the quota; it returns the seconds until the next question.

        Quota: 0 while it is unknown, below 0 if there is none.

        `learned_versions` takes the version of each endpoint's member, "" for one that does not answer.

        Without `read_metrics` the quota is unknown.
        """
        self._etcd = etcd
        self._learned = learned
        self._learned_versions = learned_versions
        self._read_metrics = read_metrics
        self._clock = clock
        self._throttled_log = ThrottledLog(log, clock)
        self._fails_since: float | None = None  # monotonic seconds
        self._interval = 10.0
        self._versions: set[str] = set()  # that were looked at for known bugs
        self._quota_read = -_QUOTA_EVERY
        self.quota = 0  # 0 while it is unknown
        self.status: Status | None = None  # None until it has answered for the first time

    async def run(self) -> None:
        """Ask for ever. Without an answer the last one stays."""
        await together([self._ask_status(), self._ask_versions()])

    async def _ask_status(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._interval)

    async def look(self) -> bool:
        """Ask for the status now; whether etcd has answered."""
        try:
            status = await self._etcd.status(_TIMEOUT)
        except EtcdError as error:
            self._failed(error)
            return False
        self._fails_since = None
        status = await self._completed(status)
        if not status.version and self.status is not None:
            status = self.status._replace(errors=status.errors)  # it says more
        self._warn_of_unknown_alarms(status)
        self.status = status
        self._warn_of([status.version])
        self._interval = self._learned(status.db_size_in_use, self.quota)
        return True

    def _failed(self, error: EtcdError) -> None:
        now = self._clock.monotonic()
        if self._fails_since is None:
            self._fails_since = now
        seconds = now - self._fails_since
        (self._throttled_log.warn if seconds >= _LONG else log.debug)(
            "etcd has not answered requests for its status for %d s, so it is unknown how full it is: %s",
            *(seconds, error),
        )

    def _warn_of_unknown_alarms(self, status: Status) -> None:
        if status.errors is None and (self.status is None or self.status.errors is not None):
            log.warning(
                "etcd does not tell this user its alarms: `etcdctl --user root alarm list` shows them"
            )

    async def _ask_versions(self) -> None:
        # Beside the status: a member that hangs must not delay that.
        while True:
            self._look_at_versions(await self._etcd.versions(_TIMEOUT))
            await asyncio.sleep(_VERSIONS_EVERY)

    def _look_at_versions(self, versions: Sequence[str]) -> None:
        self._warn_of(versions)
        self._learned_versions(versions)

    def _warn_of(self, versions: Sequence[str]) -> None:
        for version in sorted({*versions} - self._versions):
            self._versions.add(version)
            for warning in warnings(version):
                log.warning("%s", warning)

    async def _completed(self, status: Status) -> Status:
        """The status with what etcd's metrics show, which are read now and then, or because it has gaps."""
        now = asyncio.get_running_loop().time()
        if self._read_metrics is None or (status.version and now - self._quota_read < _QUOTA_EVERY):
            return status
        first, self._quota_read = self._quota_read < 0, now
        found = await self._read_metrics(self._etcd.endpoint)
        if found is not None:
            # A member that does not answer in time does not make the quota unknown again.
            self.quota = found.quota or self.quota
            status = found.completed(status)
        if first and not self.quota:
            log.warning(
                "etcd does not show its quota in its metrics at %s: zketcd cannot keep a reserve of it",
                self._etcd.endpoint,
            )
        return status
