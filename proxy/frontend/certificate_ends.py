"""When the certificates that this process reads end, and the warnings while one ends soon.

OpenSSL says only that a certificate has ended, and then clients, proxies or etcd are cut off already.
"""

import asyncio
import base64
import logging
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from proxy.state.auth.der import validity_of
from proxy.support.environment import HOST, Clock

log = logging.getLogger(__name__)

_DAY = 86_400
# What renews certificates usually does so a month before they end. Two weeks before, it has failed for two
# weeks, and two weeks are left to find out why.
_SOON = 14 * _DAY
_SHARE = 5  # those of a few days are renewed after half or two thirds of their life, not in its last fifth
_LOOK = 60.0  # seconds
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]*CERTIFICATE)-----(.+?)-----END \1-----", re.DOTALL)


class Certificate(NamedTuple):
    """The certificate of a PEM file that ends first. Times are in seconds since 1970."""

    option: str  # which names the file
    file: str
    begins: int
    ends: int

    def when(self, now: float) -> str:
        """When it ends, for people."""
        at = f"{datetime.fromtimestamp(self.ends, UTC):%Y-%m-%d %H:%M} UTC"
        left = self.ends - now
        if left <= 0:
            return f"a certificate in {self.file} ended on {at}"
        days = f"{left / _DAY:.0f} days" if left >= 2 * _DAY else f"{left / 3600:.0f} hours"
        return f"a certificate in {self.file} ends on {at}, in {days}"

    def ends_soon(self, now: float) -> bool:
        """Whether it should have been renewed by now."""
        return self.ends - now < min(_SOON, (self.ends - self.begins) / _SHARE)


def read(files: Mapping[str, str], now: float) -> list[Certificate]:
    """Of each PEM file, by the option that names it: the certificate that ends first. Blocks.

    One that has ended counts only if the file has no other: nothing that works depends on it any more. Files
    that cannot be read, or that have no certificate, are left out: others report that.
    """
    found = []
    for option, file in files.items():
        dates = _dates(file)
        if dates:
            ends, begins = min([each for each in dates if each[0] > now] or [max(dates)])
            found.append(Certificate(option, file, begins, ends))
    return found


def _dates(file: str) -> list[tuple[int, int]]:
    """(end, begin) of each certificate in a PEM file."""
    try:
        blocks = _PEM.findall(Path(file).read_bytes())
    except OSError:
        return []
    dates = []
    for _, block in blocks:
        try:
            begins, ends = validity_of(base64.b64decode(block))
        except ValueError:
            continue
        dates.append((ends, begins))
    return dates


class CertificateEnds:
    """The certificates in use: looks at them every minute, and warns of those that end soon."""

    def __init__(self, look: Callable[[], list[Certificate]], clock: Clock = HOST.clock) -> None:
        """`look` blocks."""
        self.known: list[Certificate] = []
        self._look = look
        self._clock = clock
        self._warned = 0.0  # when

    async def run(self, interval: float = _LOOK) -> None:
        """Warn at the start, when a certificate has changed, and once a day."""
        while True:
            found = await asyncio.to_thread(self._look)
            now = self._clock.time()
            if found != self.known or now - self._warned >= _DAY:
                self.known, self._warned = found, now
                for each in found:
                    if each.ends_soon(now):
                        log.warning(
                            "%s (%s): replace the file, it is read again", each.when(now), each.option
                        )
            await asyncio.sleep(interval)
