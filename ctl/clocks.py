"""How the clocks of proxies' hosts differ from this host's, by the dates that their admin ports send."""

import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from ctl.admin import AT_ONCE, TIMEOUT, unreachable
from proxy.support.environment import HOST, Clock
from schema.record import Home

#: Seconds; a date has whole seconds.
DIFFER = 2.0


def ahead(homes: Mapping[str, Home], clock: Clock = HOST.clock) -> dict[str, float | str]:
    """By how many seconds the clock of each proxy is ahead of ours, or why that is not known. Blocks."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(homes, pool.map(lambda home: _ahead(home, clock), homes.values()), strict=True))


def _ahead(home: Home, clock: Clock) -> float | str:
    if reason := unreachable(home):
        return reason
    # Nothing that is secret is asked or answered, so any certificate will do.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))
    began = clock.time()
    try:
        try:
            with opener.open(f"{home.admin}/live", timeout=TIMEOUT) as answer:
                date = answer.headers["Date"]
        except HTTPError as error:  # it answers, if only that it is not well
            date = error.headers["Date"]
            error.close()
        middle = (began + clock.time()) / 2
        return parsedate_to_datetime(date).timestamp() + 0.5 - middle
    except (OSError, ValueError, TypeError) as error:
        return f"{home.admin} does not answer: {error}"
