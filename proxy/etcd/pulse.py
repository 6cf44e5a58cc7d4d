"""How etcd says it is, asked now and then so that whoever wants to know it needs not wait."""

import asyncio
import logging

from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError, Status

log = logging.getLogger(__name__)

_INTERVAL = 10.0  # seconds between two questions
_TIMEOUT = 5.0


class Pulse:
    """The last status of the member in use."""

    def __init__(self, etcd: Etcd) -> None:
        self._etcd = etcd
        self.status: Status | None = None  # None until it has answered for the first time

    async def run(self) -> None:
        """Ask for ever. Without an answer nothing changes: whether etcd is in touch others know better."""
        while True:
            try:
                self.status = await self._etcd.status(_TIMEOUT)
            except EtcdError as error:
                log.debug("etcd does not say how it is: %s", error)
            await asyncio.sleep(_INTERVAL)
