"""Commands of `zketcd` that read or repair a tree in etcd. A few ask the proxies as well.

main        runs one
program     what each is made of, and the tree that it is about
reading     the tree as ls, get and stat, with `sessions`; `replay`: as it was
history     the log, its sizes, the proxies, with `clocks`; `life`: of one session
changes     commands that change something, with `budgets`, `levels` and `unseal`
visitor     the incarnation under which a command appends
admin       what the proxies answer, for `sessions` and `top`
backup      the tree as a snapshot of ZooKeeper
clickhouse  what ClickHouse servers that are gone have left
"""
