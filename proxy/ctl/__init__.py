"""`python -m proxy.ctl`: reads or repairs a tree in etcd, without a running proxy.

`commands`: their names. `options`: the command line. `reading`: the tree as ls, get, stat and sessions.
`history`: the log, its sizes, the proxies. `changes`: commands that change something, with `levels`, and
`visitor`, the incarnation under which a command appends. `admin`: what the proxies answer, for `sessions` and
`top`. `output`: how results are printed. `client`: a session of a running server, for `zketcd shell` and
others that act as a client does.
"""
