"""Reads how far a copy is behind its source, as `zketcd follow` says it about once a second."""

import asyncio
import logging
from contextlib import suppress

from proxy.etcd.interface import Reads
from proxy.etcd.model import EtcdError, Get
from schema.errors import BadValue
from schema.followed import Lag, decode_lag

_INTERVAL = 1.0  # seconds
_TIMEOUT = 2.0

log = logging.getLogger(__name__)


class CopyLag:
    """The lag that `zketcd follow` has reported last."""

    def __init__(self, etcd: Reads, key: bytes) -> None:
        self._etcd = etcd
        self._key = key
        #: None: it has said nothing yet. While it does not run, this stays as it was.
        self.value: Lag | None = None

    async def run(self) -> None:
        """Read it, for ever."""
        while True:
            with suppress(EtcdError):  # `LogFollower` reports an etcd that does not answer
                found = (await self._etcd.range(Get(self._key), _TIMEOUT)).kvs
                try:
                    self.value = decode_lag(found[0].value) if found else self.value
                except BadValue as error:
                    log.debug("%s", error)
            await asyncio.sleep(_INTERVAL)
