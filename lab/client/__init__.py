"""A ZooKeeper client on `codec`.

requests    what a client can ask, and how replies are read
dialogue    one connection without I/O
session     the asyncio client
blocking    the same on a blocking socket: for clients in threads that look at each message
packets     requests as bytes without a client, and a server's bytes split into replies
meter       counts a client's requests, and measures their latency
"""
