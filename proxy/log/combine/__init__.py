"""Combined appends: one proxy appends the entries of several in one Txn.

With a few clients at each of several proxies, entries are small, and each costs etcd a Txn and every proxy a
wake-up. So proxies hand their entries to one of them, the combiner: the eldest, if all have --peer-listen.

    messages.py         what the two ends of a connection send, signed. Pure
    peer_connection.py  what both ends have in common
    choice.py           tries which mode is quicker: together, or each proxy by itself. Pure
    combiner.py         gathers entries, and appends them together
    server.py           the combiner's end: it takes other proxies' entries, and says which mode they are in
    client.py           the other proxies' end: it offers entries, and leaves a combiner that is slow
    combining.py        a proxy's part: it is the combiner, hands its entries to it, or appends them itself

The combiner decides nothing. An entry has the key, the number and the bytes of a direct append, and whether
it took effect is what the stream shows. So an entry that the combiner loses, repeats or sends late does no
harm: its proxy appends it itself after a while, and of two copies the second finds its key there. There is
no election, and two combiners at a time only cost speed.
"""
