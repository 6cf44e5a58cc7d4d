"""Keys under the prefix that are not zketcd's: what reads keys skips them, with one warning each. Pure."""

import logging
from collections.abc import Iterable

from proxy.etcd.model import KeyValue
from schema.errors import ForeignKey
from schema.keys import Keyspace

log = logging.getLogger(__name__)

_MOST_WARNINGS = 100  # with one Keyspace: a program that uses the prefix may put any number of keys


def ours(keys: Keyspace, pairs: Iterable[KeyValue]) -> list[KeyValue]:
    """Those of the pairs that `keys` can parse."""
    found = []
    for pair in pairs:
        try:
            keys.parse(pair.key)
        except ForeignKey as error:
            skip(keys, pair.key, error)
        else:
            found.append(pair)
    return found


def skip(keys: Keyspace, key: bytes, error: ForeignKey) -> None:
    """Log the warning, if it was not logged before."""
    warned = keys.foreign
    if key not in warned and len(warned) < _MOST_WARNINGS:
        warned.add(key)
        log.warning("ignoring a key in etcd: %s", error)
        if len(warned) == _MOST_WARNINGS:
            log.warning("no warning names the other keys in etcd that are ignored")
