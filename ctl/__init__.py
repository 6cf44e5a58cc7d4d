"""Commands of `zketcd` that read or repair a tree in etcd, without a proxy.

`main`: runs one. `options`: the command line. `reading`: the tree as ls, get, stat and sessions.
`history`: the log, its sizes, the proxies. `changes`: commands that change something, with `levels`, and
`visitor`, the incarnation under which a command appends. `admin`: what the proxies answer, for `sessions` and
`top`.
"""
