"""Where a request's cost lies within the proxy: CPU time, or calls of functions, by stage, and etcd's share.

`python -m bench.stages` runs a whole `Server` with its `EtcdClient` in this process, without sockets: clients
whose transports only count (`clients`), and an etcd that is the tests' fake behind etcd's own messages
(`etcd`). `loop` is an event loop that tells a `meter` whose work it runs, `parts` does so where one part of
the proxy calls another, `cases` says what is run, `memory` what a znode takes.

Two versions of the code on one machine compare far closer by this than by a run against servers; what is
counted rather than timed (`costs`) has no noise at all, and a test holds it.

Not in the figures: sockets, HTTP/2 and the event loop itself, which are uvloop's in a proxy.
"""
