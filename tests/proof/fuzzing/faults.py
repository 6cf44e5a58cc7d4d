"""Faults that made requests cost too much, and were found by hand: each as a patch of a function."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from codec.constants import Perms
from proof.fuzzing import expensive
from proxy.frontend.limits import LIMITS
from proxy.state.by_path import ByPath
from proxy.state.digest import Digest, node_hash
from proxy.state.node import Node
from proxy.state.notifications import Notifications, Sending, Watcher
from proxy.state.pause import BYTES_PER_STEP, Pause
from proxy.state.quotas import Quotas
from proxy.state.rights import permits
from proxy.state.transaction import IN_VAIN, Transaction
from proxy.state.watches import _Merged


def searches_in_vain(patch: pytest.MonkeyPatch) -> None:
    """What fails may delete thousands of nodes, again and again."""
    patch.setattr(Transaction, "may_search", property(lambda _: IN_VAIN))


def auth_is_long(patch: pytest.MonkeyPatch) -> None:
    """`auth` may stand for very many identities."""
    patch.setattr(expensive, "LIMITS", LIMITS._replace(expanded=64 << 10))


def large_data_are_hashed_again(patch: pytest.MonkeyPatch) -> None:
    """The digest hashes all data of a node whatever of it has changed."""

    def large_hash(_digest: Digest, path: str, node: Node, pause: Pause) -> int:
        pause.spend(node.size // BYTES_PER_STEP)
        return node_hash(path, node)

    patch.setattr(Digest, "_large_hash", large_hash)


def watchers_are_merged_again(patch: pytest.MonkeyPatch) -> None:
    """The recursive watchers of all ancestors are merged for each event."""

    def of(merged: _Merged, path: str, pause: Pause) -> Mapping[Watcher, None]:
        found: dict[Watcher, None] = {}
        for step in reversed(merged._by_path.upwards(path, pause)):
            found |= merged._by_path[step]
            pause.spend(len(found) // 16)
        return found

    patch.setattr(_Merged, "of", of)


def parents_are_searched_again(patch: pytest.MonkeyPatch) -> None:
    """All watched ancestors, or those with quotas, are looked for again for each parent."""
    search = ByPath.from_parent

    def from_parent(keys: ByPath[object], path: str, pause: Pause) -> list[str]:
        keys._forget()
        return search(keys, path, pause)

    patch.setattr(ByPath, "from_parent", from_parent)


def quotas_are_added_to_again(patch: pytest.MonkeyPatch) -> None:
    """Each change is added to all quotas above it."""

    def spread(quotas: Quotas, pause: Pause) -> None:
        for path, (count, size) in quotas._added.items():
            for above in pause.each(quotas.upwards(path, pause)):
                quotas._add_to(above, count, size)
        quotas._added.clear()

    patch.setattr(Quotas, "_spread", spread)


def rights_are_checked_again(patch: pytest.MonkeyPatch) -> None:
    """Each watcher's identities are compared with the ACL of each event."""
    patch.setattr(Sending, "_judged", lambda _, watchers, __: (watchers, None))
    patch.setattr(
        Notifications, "are_for", lambda some, identities: permits(some.rights, Perms.READ, identities)
    )


class Fault(NamedTuple):
    """A fault, and the input of the corpus that it makes cost too much."""

    plant: Callable[[pytest.MonkeyPatch], None]
    genome: str


#: By name.
FAULTS = {
    "searches": Fault(searches_in_vain, "00080000000000000000000b010401010903"),
    "auth": Fault(auth_is_long, "000000000000000000070001000e06000000"),
    "data": Fault(large_data_are_hashed_again, "00030014000000000000000b030400000203"),
    "watchers": Fault(watchers_are_merged_again, "070500000000000607000900000000000000"),
    "parents": Fault(parents_are_searched_again, "070505000000000107000900000000000000"),
    "quotas": Fault(quotas_are_added_to_again, "070505000000070000000100000000000000"),
    "rights": Fault(rights_are_checked_again, "000500000300000401000b00000000000000"),
}
