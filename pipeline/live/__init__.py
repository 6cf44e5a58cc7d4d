"""A running ZooKeeper as the origin of a tree: its admin server's snapshot, or a walk over its wire.

admin.py  GET /commands/snapshot of 3.9's admin server: everything, as a file.
walk.py   the walk: all that any client can read, and nothing else.
"""
