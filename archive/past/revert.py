"""What brings a subtree back to a past state: the steps, the conflicts, and what has to be left out. Pure.

Steps are ordinary requests of a client. A node that exists is set or deleted only in the version that it has
now, so the server refuses steps whose node changes after the plan. A plan that is made again has the rest.
"""

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from archive.past.difference import CREATED, DELETED, differences
from proxy.state.node import Node
from schema.paths import ROOT, ZOOKEEPER, parent_of
from schema.znode import session_of


class Kind(Enum):
    """What a step does."""

    DELETE = "delete"
    CREATE = "create"
    COUNT = "raise the counter of"  # of children ever created, from which sequential nodes have their numbers
    SET = "set"
    SET_ACL = "setACL"


class Step(NamedTuple):
    """One request; COUNT: so many pairs of requests."""

    kind: Kind
    path: str
    node: Node  # as it shall be; as it is for DELETE
    version: int  # of data or ACL as it is
    times: int = 0


class Plan(NamedTuple):
    """What a revert does."""

    steps: list[Step]  # in the order in which they can be done
    conflicts: list[tuple[str, str]]  # path and why: what has changed since
    left_out: list[tuple[str, str]]  # path and why: what no client can bring back


def plan(
    past: Mapping[str, Node],
    undone: Mapping[str, Node] | None,
    now: Mapping[str, Node],
    path: str,
    *,
    force: bool = False,
) -> Plan:
    """The way from `now` to `past`.

    `undone`: the state after the changes that are to be undone; a node that is not as it was then has changed
    since, which is a conflict. Without it every node is a conflict that exists and differs. `force`: revert
    conflicts as well. Raises ValueError.
    """
    if path != ROOT and parent_of(path) not in now:
        raise ValueError(f"{parent_of(path)} does not exist: revert that")
    deletes: list[Step] = []
    creates: list[Step] = []
    sets: list[Step] = []
    made = Plan([], [], [])
    missing: set[str] = set()  # that stay away, so that nothing can be created below them
    kept: set[str] = set()  # that stay, with all above them
    for each, change, fields, was, is_now in differences(past, now, path):
        if each == ZOOKEEPER or each.startswith(f"{ZOOKEEPER}/"):
            continue
        if any(node is not None and session_of(node.owner) for node in (was, is_now)):
            made.left_out.append((each, "ephemeral"))
            missing.add(each)
            if is_now is not None:
                kept |= _with_above(each)
            continue
        why = _conflict(was if undone is None else undone.get(each), is_now, deleted=undone is not None)
        if why and not force:
            made.conflicts.append((each, why))
            if is_now is not None:
                kept |= _with_above(each)
            else:
                missing.add(each)
        elif change == CREATED:
            assert is_now is not None
            deletes.append(Step(Kind.DELETE, each, is_now, is_now.version))
        elif change == DELETED:
            assert was is not None
            if parent_of(each) in missing:
                missing.add(each)
                made.left_out.append((each, "its parent is left out"))
            else:
                creates.append(Step(Kind.CREATE, each, was, 0))
        else:
            assert was is not None
            assert is_now is not None
            if "owner" in fields:
                made.left_out.append((each, "clients cannot make it a container or TTL node, or none"))
            if "data" in fields:
                sets.append(Step(Kind.SET, each, was, is_now.version))
            if "acl" in fields:
                sets.append(Step(Kind.SET_ACL, each, was, is_now.aversion))
    for step in deletes:
        if step.path in kept:
            made.left_out.append((step.path, "nodes below it stay"))
    gone = [step for step in reversed(deletes) if step.path not in kept]
    stay = {each for each, _ in made.conflicts}
    made.steps.extend(gone + _counted(creates, past, now, path, stay) + sets)
    return made


def _conflict(undone: Node | None, now: Node | None, *, deleted: bool) -> str:
    """Why a node has changed since; "" if it has not. `deleted`: a deletion counts as well."""
    if undone is None:
        return "" if now is None else "created since"
    if now is None:
        return "deleted since" if deleted else ""
    if undone.czxid != now.czxid:
        return "created again since"
    return "changed since" if (undone.mzxid, undone.aversion) != (now.mzxid, now.aversion) else ""


def _with_above(path: str) -> set[str]:
    found = {path}
    while path != ROOT:
        path = parent_of(path)
        found.add(path)
    return found


def _counted(
    creates: list[Step], past: Mapping[str, Node], now: Mapping[str, Node], path: str, stay: set[str]
) -> list[Step]:
    """The creations, each with what its counter lacks: counters are not lowered.

    A node that exists lacks something if it was created again.
    """
    children = Counter(parent_of(step.path) for step in creates)
    below = path.rstrip("/") + "/"
    found = []
    for each in sorted(past):
        if (each == path or each.startswith(below)) and each in now and each not in stay:
            node = now[each]
            again = node.czxid != past[each].czxid and not session_of(node.owner)
            found += _raised(each, past[each], node.created + children[each]) if again else []
    for step in creates:
        found.append(step)
        found += _raised(step.path, step.node, children[step.path])
    return found


def _raised(path: str, node: Node, reached: int) -> list[Step]:
    lacking = node.created - reached
    return [Step(Kind.COUNT, path, node, 0, lacking)] if lacking > 0 else []
