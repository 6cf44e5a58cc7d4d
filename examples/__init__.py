"""Programs that do to ZooKeeper what real users do, and check that nothing of it was lost.

The two workloads are packages with a command: `python -m examples.NAME HOST:PORT`. They run against any
ZooKeeper, Keeper or zketcd. README.md lists them; workloads.md has their protocols and figures. The other
modules are programs that pages of the documents show.

* `servers` says where a workload runs; it starts zketcd and real ZooKeeper for `--start`.
* `tree` creates and deletes subtrees.
"""
