"""ZooKeeper's client protocol and snapshot files: bytes to records and back.

Pure: no I/O, no asyncio, no clock, and nothing of zketcd is imported here. README.md has the map.
"""
