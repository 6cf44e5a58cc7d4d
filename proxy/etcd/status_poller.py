"""etcd's own status, read periodically, so that metrics can show it without a request to etcd.

Its quota is read with it, from etcd's metrics: before 3.6 no answer has it.

Each endpoint's member is asked for its version. If that has known bugs, a warning is logged.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError, Status
from proxy.etcd.versions import warnings
from proxy.support.tasks import together

log = logging.getLogger(__name__)

_QUOTA_EVERY = 60.0  # seconds: a member may be started again with another quota
_VERSIONS_EVERY = 10.0  # seconds
_TIMEOUT = 5.0


class StatusPoller:
    """The last status of the member in use."""

    def __init__(
        self,
        etcd: Etcd,
        learned: Callable[[int, int], float],
        learned_versions: Callable[[Sequence[str]], None],
        read_quota: Callable[[str], Awaitable[int]] | None = None,
    ) -> None:
        """`learned` takes the size in use and the quota; it returns the seconds until the next question.

        Quota: 0 while it is unknown, below 0 if there is none.

        `learned_versions` takes the version of each endpoint's member, "" for one that does not answer.

        `read_quota`: the quota of a member, 0 if it does not show it. Without it the quota is unknown.
        """
        self._etcd = etcd
        self._learned = learned
        self._learned_versions = learned_versions
        self._read_quota = read_quota
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
            try:
                status = await self._etcd.status(_TIMEOUT)
            except EtcdError as error:
                log.debug("etcd does not answer a request for its status: %s", error)
            else:
                self.status = status
                await self._look_at_quota()
                self._interval = self._learned(status.db_size_in_use, self.quota)
            await asyncio.sleep(self._interval)

    async def _ask_versions(self) -> None:
        # Beside the status: a member that hangs must not delay that.
        while True:
            self._look_at_versions(await self._etcd.versions(_TIMEOUT))
            await asyncio.sleep(_VERSIONS_EVERY)

    def _look_at_versions(self, versions: Sequence[str]) -> None:
        for version in sorted({*versions} - self._versions):
            self._versions.add(version)
            for warning in warnings(version):
                log.warning("%s", warning)
        self._learned_versions(versions)

    async def _look_at_quota(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._read_quota is not None and now - self._quota_read >= _QUOTA_EVERY:
            first, self._quota_read = self._quota_read < 0, now
            # A member that does not answer in time does not make the quota unknown again.
            self.quota = await self._read_quota(self._etcd.endpoint) or self.quota
            if first and not self.quota:
                log.warning(
                    "etcd does not show its quota in its metrics at %s: zketcd cannot keep a reserve of it",
                    self._etcd.endpoint,
                )
