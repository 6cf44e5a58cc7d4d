"""Real processes under real faults, with a verdict: zketcd on etcd, and recorded clients.

To read it: `cluster` is three members of etcd, several proxies, and relays between all of them and the
clients; `faults` and `maintenance` are what happens to them; `rounds` is one history, from its clients to the
audit of all trees; `observer` follows the log in etcd meanwhile; `judge` says whether history, log and trees
agree. `torture` is the whole run.
"""
