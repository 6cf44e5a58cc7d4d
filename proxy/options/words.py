"""The four-letter words, but for their answers (`proxy.admin.four_letter`), and which are answered. Pure.

ZooKeeper's `4lw.commands.whitelist` (FourLetterCommands.isEnabled); Keeper's words obey the same list.
"""

from typing import NamedTuple


class Word(NamedTuple):
    """What is known of a word."""

    #: It looks at all clients, or at all they have: over HTTP few of these are answered at once.
    is_long: bool = False
    #: It is answered also while clients are not served, as ZooKeeper's is without a quorum.
    without_quorum: bool = False


_LONG = Word(is_long=True)
_ANY_TIME = Word(without_quorum=True)
ZOOKEEPER = {
    "conf": Word(),
    "cons": _LONG,
    "crst": _LONG,
    "dirs": Word(),
    "dump": _LONG,
    "envi": _ANY_TIME,
    "gtmk": _ANY_TIME,
    "hash": Word(),
    "isro": _ANY_TIME,
    "mntr": Word(),
    "ruok": _ANY_TIME,
    "srst": Word(),
    "srvr": Word(),
    "stat": _LONG,
    "stmk": _ANY_TIME,
    "wchc": _LONG,
    "wchp": _LONG,
    "wchs": Word(),
}
# None of these takes long.
KEEPER = dict.fromkeys(["apiv", "clrs", "csnp", "ftfl", "lgif", "rcfg", "rclc", "rcvr", "rqld"], _ANY_TIME)
WORDS = ZOOKEEPER | KEEPER
KNOWN = frozenset(WORDS)
LONG = frozenset(name for name, word in WORDS.items() if word.is_long)
ALWAYS = frozenset({"srvr"})
"""zkServer.sh needs it: ZooKeeper answers it whatever its list says."""
DEFAULT = "srvr,ruok,isro,mntr,dirs,lgif"
"""Health checks need these, the Java client's search for a server that takes writes, and ClickHouse for its
table system.zookeeper_info. They only read, name no client and walk nothing."""


def parse(text: str) -> frozenset[str]:
    """The words in a list separated by commas; `*` is all. Raises ValueError for an unknown word."""
    allowed = set(ALWAYS)
    for word in (part.strip() for part in text.split(",")):
        if word == "*":
            return KNOWN
        if word and word not in KNOWN:
            raise ValueError(
                f"{word!r} is not a four-letter word; known are {' '.join(sorted(KNOWN))}, and *"
            )
        if word:
            allowed.add(word)
    return frozenset(allowed)
