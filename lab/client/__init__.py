"""Clients of ZooKeeper on `codec.client`, which has the requests and one connection without I/O.

session     the asyncio client
blocking    the same on a blocking socket: for clients in threads that look at each message
slow        one that takes its replies slowly, or not at all
replies     replies as they came
meter       counts a client's requests
"""
