"""etcd's own status, read periodically, so that metrics can show it without a request to etcd.

The first answer also has etcd's version. If that version has known bugs, a warning is logged.
"""

import asyncio
import logging

from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError, Status
from proxy.etcd.versions import warnings

log = logging.getLogger(__name__)

_INTERVAL = 10.0  # seconds between two questions
_TIMEOUT = 5.0


class StatusPoller:
    """The last status of the member in use."""

    def __init__(self, etcd: Etcd) -> None:
        self._etcd = etcd
        self.status: Status | None = None  # None until it has answered for the first time

    async def run(self) -> None:
        """Ask for ever. Without an answer the last one stays."""
        while True:
            try:
                status = await self._etcd.status(_TIMEOUT)
            except EtcdError as error:
                log.debug("etcd does not answer a request for its status: %s", error)
            else:
                if self.status is None or self.status.version != status.version:
                    for warning in warnings(status.version):
                        log.warning("%s", warning)
                self.status = status
            await asyncio.sleep(_INTERVAL)
