"""Curator, what most Java applications use ZooKeeper through: its recipes, by clients of both servers.

Each recipe is what Curator 5.9 makes of it, from the jars of the pyspark wheel; here is only its use.
"""
