"""Requests that are sent again until their outcome is known."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from proxy.etcd.model import EtcdUnknown

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_RETRY = 0.2  # seconds
_TRIES = 50


async def until_known(request: Callable[P, Awaitable[T]], *arguments: P.args, **named: P.kwargs) -> T:
    """Repeat an idempotent request while its outcome is unknown. Raises EtcdError after the last try."""
    for _ in range(_TRIES):
        try:
            return await request(*arguments, **named)
        except EtcdUnknown as error:
            log.debug("trying again: %s", error)
            await asyncio.sleep(_RETRY)
    return await request(*arguments, **named)
