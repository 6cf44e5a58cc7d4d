"""A ZooKeeper client that shares no code with `codec`, so that it cannot share its mistakes.

wire        primitives, and a connection that records every frame
records     layouts of ZooKeeper 3.9's zookeeper.jute
requests    what can be asked, as values and as bytes
client      a session

The tests that compare zketcd with real ZooKeeper use it, and the models that zketcd is judged by.
"""
