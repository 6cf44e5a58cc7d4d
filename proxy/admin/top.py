"""The busiest paths, sessions and clients of one proxy: as a document, and as lines of the log."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from proxy.frontend.sampling import MOST, Sampling
from proxy.support.busiest import Rates

log = logging.getLogger(__name__)


def document(sampling: Sampling, most: int = MOST) -> dict[str, Any]:
    """Requests a second; `most`: rows of each list. `path` is "" for operations without one."""
    options = sampling.options
    return {
        "one_in": options.sample,
        "window_seconds": options.window,
        **_rates(sampling.total()),
        "paths": [{"path": path, **_rates(rates)} for path, rates in sampling.paths(most)],
        "operations": [
            {"operation": operation, "path": path, **_rates(rates)}
            for operation, path, rates in sampling.operations(most)
        ],
        "sessions": [
            {"session": session, "client": client, "path": path, **_rates(rates)}
            for session, client, path, rates in sampling.sessions(most)
        ],
        "clients": [{"client": client, **_rates(rates)} for client, rates in sampling.clients(most)],
    }


def _rates(rates: Rates) -> Mapping[str, float]:
    return {"reads": round(rates.reads, 2), "writes": round(rates.writes, 2)}


async def log_busiest(sampling: Sampling) -> None:
    """Log the busiest paths now and then, as RequestPathMetricsCollector does, until it is cancelled."""
    while True:
        await asyncio.sleep(sampling.options.log)
        for line in lines(sampling):
            log.info("%s", line)


def lines(sampling: Sampling) -> list[str]:
    """The paths that are read most, and those that are written most."""
    found = sampling.paths()
    made = []
    for place, what in enumerate(("read", "written")):
        paths = sorted((each for each in found if each[1][place]), key=lambda each: -each[1][place])
        shown = (f"{path or '(no path)'} {rates[place]:.1f}/s" for path, rates in paths)
        some = ", ".join(text for text, _ in zip(shown, range(sampling.options.rows), strict=False))
        made.append(f"the paths {what} most: {some or 'none'}")
    return made
