"""What the admin ports of the living proxies answer."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from proxy.support.addresses import is_loopback
from proxy.support.user import host_name
from schema.record import Home

#: Seconds for the answer of one proxy.
TIMEOUT = 3.0
#: Proxies that are asked.
AT_ONCE = 16


def ask_all(homes: Mapping[str, Home], command: str) -> dict[str, dict[str, Any] | str]:
    """The answer of each proxy to a command, by incarnation, or why there is none. Blocks."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(homes, pool.map(partial(_asked, command=command), homes.values()), strict=True))


def unreachable(home: Home) -> str:
    """Why a proxy's admin port cannot be asked from here; "" if it can."""
    if not home.admin:
        return "it has no admin port"
    if is_loopback(urlsplit(home.admin).hostname or "") and home.host != host_name():
        return f"run this command there: its admin port {home.admin} is of its loopback interface"
    return ""


def _asked(home: Home, command: str) -> dict[str, Any] | str:
    return unreachable(home) or ask(home.admin, command)


def ask(url: str, command: str) -> dict[str, Any] | str:
    """The answer of an admin port, or why there is none. Blocks."""
    try:
        # Not by a proxy of the environment: the address is one of the cluster's.
        opener = build_opener(ProxyHandler({}))
        with opener.open(f"{url.rstrip('/')}/commands/{command}", timeout=TIMEOUT) as answer:
            document = json.load(answer)
        return str(document["error"]) if document["error"] else dict(document)
    except (OSError, ValueError, LookupError, TypeError) as error:
        return f"{url} does not answer: {error}"
