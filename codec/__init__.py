"""ZooKeeper's client protocol: bytes to records and back.

Pure: no I/O, no asyncio, no clock, and nothing of zketcd is imported here. README.md has the map.
"""
