"""Programs that do to ZooKeeper what real users do, and check that nothing of it was lost.

The two workloads are packages. They run against any ZooKeeper, Keeper or zketcd; README.md lists them. The
other modules are programs that pages of the documents show.

* `tree` creates and deletes subtrees.
"""
