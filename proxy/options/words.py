"""The names of the four-letter words, and which of them are answered. Pure.

ZooKeeper's `4lw.commands.whitelist` (FourLetterCommands.isEnabled); Keeper's words obey the same list.
"""

_OF_ZOOKEEPER = "conf cons crst dirs dump envi gtmk hash isro mntr ruok srst srvr stat stmk wchc wchp wchs"
_OF_KEEPER = "apiv clrs csnp ftfl lgif rcfg rclc rcvr rqld"
ZOOKEEPER = frozenset(_OF_ZOOKEEPER.split())
KEEPER = frozenset(_OF_KEEPER.split())
KNOWN = ZOOKEEPER | KEEPER
#: Those whose answers are lists without a bound.
LISTS = frozenset({"cons", "dump", "stat", "wchc", "wchp"})
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
