"""`python -m ctl`, and the same commands of `zketcd`: they read or repair a tree in etcd, without a proxy.

`commands`: their names. `options`: the command line. `reading`: the tree as ls, get, stat and sessions.
`history`: the log, its sizes, the proxies. `changes`: commands that change something, with `levels`, and
`visitor`, the incarnation under which a command appends. `admin`: what the proxies answer, for `sessions` and
`top`.
"""
