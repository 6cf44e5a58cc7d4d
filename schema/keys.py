"""etcd keys, all under one prefix: the tree's record, living proxies, the log's entries, snapshot pages.

What every proxy watches lies under `<prefix>/live/`; snapshot pages lie outside it, since otherwise etcd
would send each page to every proxy.
"""

import enum
import re
from typing import NamedTuple

from codec.named import new_tuple
from schema.errors import ForeignKey

# Names of incarnations are put into keys, so they hold no slash and nothing that a terminal would not show.
_INCARNATION = rb"[0-9A-Za-z_.-]+"
_PROXY = re.compile(rb"(%b)" % _INCARNATION)
_DIGITS = 16  # of an entry's number
#: The id of the lease that a proxy has while it writes a snapshot to an etcd that is nearly full.
SNAPSHOT_LEASE = 0x7A6B657463640001
#: The last number that an entry can have.
LAST_NUMBER = 10**_DIGITS - 1
_ENTRY = re.compile(rb"(%b)/([0-9]{%d})" % (_INCARNATION, _DIGITS))
_MOST_SENDERS = 4096  # that are remembered
_PAGE = re.compile(rb"([0-9]{1,19})-(%b)/(?:(?:nodes|sessions)/[0-9]{8}|state)" % _INCARNATION)


class KeyKind(enum.Enum):
    """What a key under the prefix stands for."""

    TREE = "tree"
    PROXY = "proxy"
    ENTRY = "entry"
    PAGE = "page"


class ParsedKey(NamedTuple):
    """A key taken apart.

    `incarnation` is the proxy that the key names: for an entry its sender, for a page its writer; "" for the
    tree's record. `number` is an entry's number, a page's position, else 0.
    """

    kind: KeyKind
    incarnation: str
    number: int


def snapshot_name(position: int, writer: str) -> str:
    """The name of the snapshot that the incarnation `writer` made of the state as of `position`."""
    return f"{position:016d}-{writer}"


class Keyspace:
    """All keys of one tree, under one prefix."""

    __slots__ = (
        "_senders",
        "finish",
        "follower",
        "follows",
        "foreign",
        "heard",
        "lag",
        "live",
        "live_end",
        "log",
        "log_end",
        "prefix",
        "proxies",
        "proxies_end",
        "snapshots",
        "snapshots_end",
        "tree",
        "within",
    )

    def __init__(self, prefix: str) -> None:
        """`prefix` without a slash at its end, such as `/zketcd`. Raises ValueError for a bad one."""
        if not prefix or prefix.endswith("/") or "//" in prefix:
            raise ValueError(f"the prefix {prefix!r} must not be empty, end with '/' or hold '//'")
        base = prefix.encode()
        self.prefix = base
        # Each pair is a range [start, end) of etcd's: '0' follows '/' in ASCII.
        self.live, self.live_end = base + b"/live/", base + b"/live0"
        self.tree = base + b"/live/tree"
        self.proxies, self.proxies_end = base + b"/live/proxy/", base + b"/live/proxy0"
        self.log, self.log_end = base + b"/live/log/", base + b"/live/log0"
        self.snapshots, self.snapshots_end = base + b"/snapshot/", base + b"/snapshot0"
        # While the tree follows another one: how far it is, who follows, who asks for the end, its lag, how
        # long its source's proxies may serve without its follower.
        self.follows = base + b"/follow/position"
        self.follower = base + b"/follow/follower"
        self.finish = base + b"/follow/finish"
        self.lag = base + b"/follow/lag"
        self.within = base + b"/follow/within"
        # While another tree follows this one: its follower's sign of life.
        self.heard = base + b"/follow/heard"
        # By what comes before the number: entries come by the thousand from a few incarnations.
        self._senders: dict[bytes, str] = {}
        #: Keys that are not ours, of which a reader has warned.
        self.foreign: set[bytes] = set()

    @property
    def ranges(self) -> tuple[tuple[bytes, bytes], ...]:
        """Where a tree has keys, as ranges [start, end). All else under the prefix is not ours."""
        following = self.follows, self.follower, self.finish, self.lag, self.within, self.heard
        return (
            *((key, key + b"\0") for key in (self.tree, *following)),
            (self.proxies, self.proxies_end),
            (self.log, self.log_end),
            (self.snapshots, self.snapshots_end),
        )

    def proxy(self, incarnation: str) -> bytes:
        """The key that exists as long as a proxy lives; it hangs on the proxy's lease."""
        return self.proxies + incarnation.encode()

    def entry(self, incarnation: str, number: int) -> bytes:
        """The key of an incarnation's entry; numbers are decimal, so that etcd's order is theirs.

        With a number above LAST_NUMBER it is the end of a range that has all entries.
        """
        if number > LAST_NUMBER:  # with one digit more it would come before
            return b"%b%b/:" % (self.log, incarnation.encode())
        return b"%b%b/%0*d" % (self.log, incarnation.encode(), _DIGITS, number)

    def entries_of(self, incarnation: str) -> tuple[bytes, bytes]:
        """The range of all entries of one incarnation."""
        base = self.log + incarnation.encode()
        return base + b"/", base + b"0"

    def snapshot(self, name: str) -> tuple[bytes, bytes]:
        """The range of all pages of one snapshot."""
        base = self.snapshots + name.encode()
        return base + b"/", base + b"0"

    def node_page(self, name: str, index: int) -> bytes:
        """The key of a snapshot's page of znodes; `index` counts from 0."""
        return b"%b%b/nodes/%08d" % (self.snapshots, name.encode(), index)

    def session_page(self, name: str, index: int) -> bytes:
        """The key of a snapshot's page of sessions; `index` counts from 0."""
        return b"%b%b/sessions/%08d" % (self.snapshots, name.encode(), index)

    def state_page(self, name: str) -> bytes:
        """The key of the page with what else a snapshot has to remember."""
        return b"%b%b/state" % (self.snapshots, name.encode())

    def parse(self, key: bytes) -> ParsedKey:
        """What a key stands for. Raises ForeignKey for one that is not ours."""
        sender = self._senders.get(key[:-_DIGITS])
        if sender is not None and (number := key[-_DIGITS:]).isdigit():
            return new_tuple(ParsedKey, (KeyKind.ENTRY, sender, int(number)))
        if key.startswith(self.log):
            if entry := _ENTRY.fullmatch(key, len(self.log)):
                if len(self._senders) >= _MOST_SENDERS:
                    self._senders.clear()
                sender = self._senders[key[:-_DIGITS]] = entry[1].decode()
                return ParsedKey(KeyKind.ENTRY, sender, int(entry[2]))
        elif key == self.tree:
            return ParsedKey(KeyKind.TREE, "", 0)
        elif key.startswith(self.proxies):
            if proxy := _PROXY.fullmatch(key, len(self.proxies)):
                return ParsedKey(KeyKind.PROXY, proxy[1].decode(), 0)
        elif key.startswith(self.snapshots) and (page := _PAGE.fullmatch(key, len(self.snapshots))):
            return ParsedKey(KeyKind.PAGE, page[2].decode(), int(page[1]))
        raise ForeignKey(f"{key!r} is not a key of zketcd's schema")
