"""Requests about nodes on one session: what the commands and the shell are made of."""

import re
from collections.abc import Iterator, Sequence

from cli.client import Client, Refused
from cli.output import counted, say
from codec import client as zk
from codec.jute import PERMISSIONS, Acl
from schema.paths import CONFIG, QUOTA, ROOT, ZOOKEEPER, join, parent_of

_MOST_VERSION = (1 << 31) - 1  # an int of ZooKeeper
# Between the entries of an ACL: not before another part of a certificate's subject, nor within such a part.
_BETWEEN = re.compile(r"(?<!\\),(?![\w.]+=)")


def create_parents(session: Client, path: str) -> None:
    """Create the nodes above a path that are missing. Raises Refused."""
    above = parent_of(path)
    if above == ROOT or session.call(zk.exists(above)):
        return
    create_parents(session, above)
    session.call(zk.create(above))


def walk(session: Client, path: str) -> Iterator[str]:
    """A node and all below it, parents first. What goes meanwhile is left out. Raises Refused."""
    waiting = [path]
    while waiting:
        place = waiting.pop()
        listing = zk.children(place)
        found = session.call(listing if place == path else zk.maybe(listing))
        if found is None:
            continue
        yield place
        waiting += [join(place, name) for name in sorted(found.names, reverse=True)]


def delete_all(session: Client, path: str) -> None:
    """Delete a node and all below it, children first, and say how many. Raises Refused.

    The steps are not one: a client that creates nodes there meanwhile stops it.
    """
    if path in (ZOOKEEPER, QUOTA, CONFIG):  # else the quotas below would go before that is refused
        raise Refused(f"{path} is ZooKeeper's own node, which no client can delete: name the nodes below it")
    done = 0
    try:
        paths = [each for each in walk(session, path) if each != ROOT][::-1]
        for some in zk.batches([zk.delete(each) for each in paths]):
            session.multi(some)
            done += len(some)
    finally:
        say(f"{path}: deleted {counted(done, 'node')}")


def acl_text(acl: Sequence[Acl]) -> str:
    """As zkCli writes ACLs: SCHEME:ID:PERMISSIONS, separated by commas."""
    return ",".join(each.text for each in acl)


def parsed_acl(text: str) -> tuple[Acl, ...]:
    """The entries of SCHEME:ID:PERMISSIONS,... Raises ValueError."""
    return tuple([_entry(each) for each in _BETWEEN.split(text)])


def parsed_version(text: str) -> int:
    """A node's version, or -1 for any. Raises ValueError."""
    try:
        version = int(text)
    except ValueError:
        version = -2
    if not -1 <= version <= _MOST_VERSION:
        raise ValueError(f"{text!r} is not a whole number from -1 to {_MOST_VERSION}")
    return version


def _entry(text: str) -> Acl:
    scheme, first, rest = text.partition(":")
    name, second, letters = rest.rpartition(":")
    if not (scheme and first and second and letters) or set(letters) - set(PERMISSIONS):
        raise ValueError(f"{text!r} is not SCHEME:ID:PERMISSIONS, with permissions out of {PERMISSIONS}")
    return Acl(sum(1 << PERMISSIONS.index(letter) for letter in set(letters)), scheme, name)
