"""Differential tests: the same scripts on real ZooKeeper and on zketcd, every visible byte compared.

`wire` speaks the protocol on plain sockets, `script` declares what a test does, `runner` does it on two
servers at once, `compare` judges the two answers, `generate` makes random scripts, `shrink` minimises a
script that differs. Nothing here uses zketcd's own codec: the oracle must not share its mistakes.
"""
