"""The format "zookeeper" on a running ensemble: `load("zk://host:2181,host:2181")`, walked in parallel.

Each partition is a separate session that walks some subtrees. Option `auth` is a JSON list of pairs, scheme
and identity; `walkers` is how many partitions (8). If the tree is written meanwhile, the result is a tree
that never existed: compare the largest zxid read with that before (pipeline.jobs.verify does).
pipeline.live.walk.LOSSES lists what the protocol does not show.
"""

import json
from collections.abc import Iterator, MutableMapping, Sequence
from typing import NamedTuple

import pyarrow

from pipeline.addresses import Identity, servers_of
from pipeline.batches import of_rows
from pipeline.live.walk import Walk
from pipeline.plain import plain
from pipeline.table import ZnodeRow
from schema.paths import ROOT

_WALKERS = 8
_DEEPEST = 4  # levels that are searched for subtrees to distribute


class Ensemble(NamedTuple):
    """A running ensemble and our identity there."""

    servers: tuple[tuple[str, int], ...]
    identities: tuple[Identity, ...] = ()
    walkers: int = _WALKERS


def ensemble_of(given: MutableMapping[str, str]) -> Ensemble:
    """Parse the options. Raises ValueError for invalid ones."""
    walkers = int(given.get("walkers", _WALKERS))
    if walkers <= 0:
        raise ValueError("walkers must be above 0")
    identities = tuple(
        Identity(scheme, identity.encode()) for scheme, identity in json.loads(given.get("auth", "[]"))
    )
    return Ensemble(servers_of(given["path"]), identities, walkers)


class _Subtrees(NamedTuple):
    """The part of the tree that one session walks."""

    roots: Sequence[str]
    levels: int | None


class WireReader:
    """Reads an ensemble's znodes."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble

    def partitions(self) -> Sequence[_Subtrees]:
        """Subtrees distributed among the sessions, and the nodes above them. Raises WalkFailed."""
        paths = [ROOT]
        subtrees = [ROOT]
        for levels in range(1, _DEEPEST + 1):
            paths = [row.path for row in self._rows([ROOT], levels)]
            subtrees = [path for path in paths if path != ROOT and path.count("/") == levels]
            if len(subtrees) >= 4 * self._ensemble.walkers or not subtrees:
                break
        deepest = set(subtrees)
        shares = [subtrees[start :: self._ensemble.walkers] for start in range(self._ensemble.walkers)]
        return [
            _Subtrees([path for path in paths if path not in deepest], 0),
            *(_Subtrees(share, None) for share in shares if share),
        ]

    def read(self, partition: _Subtrees) -> Iterator[pyarrow.RecordBatch]:
        """One share's nodes. Raises WalkFailed."""
        return of_rows(self._rows(partition.roots, partition.levels))

    def _rows(self, roots: Sequence[str], levels: int | None) -> Iterator[ZnodeRow]:
        walk = Walk(self._ensemble.servers, self._ensemble.identities, roots, levels)
        for page in plain(walk.rows()):
            yield from page
