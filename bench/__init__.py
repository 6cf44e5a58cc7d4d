"""The bench: zketcd beside real ZooKeeper and raw etcd, measured in one run (`make bench`).

Way of one measurement:

* `servers` starts the systems under test, each a `Target` (a port, the processes to charge, etcd's URL);
* `run` goes through the cells (workload x connections x depth), and for each cell through all targets,
  round after round, so that a drift of the machine hits all of them alike;
* every single run happens in one separate process (`worker`), which prepares the tree, drives the load
  (`load` for the ZooKeeper protocol, `etcd_load` for raw etcd), reads the costs (`costs`) around the timed
  part only, verifies the effects and cleans up;
* `summary` takes medians over the rounds, `report` prints them.

`documents` writes the tables of what was found into the documents.

`scenarios` holds what is no plain load: idle sessions, a million znodes, a far etcd, long requests; `hours`
looks for what grows; `stages` runs the proxy alone, to show what its parts cost.

The load generator trusts nothing: every reply's length, xid and error field is checked, and afterwards the
tree must hold exactly what the counted replies promised. A run that fails either is invalid, never a number.

`load`, `wire`, `replies`, `streams` and `workloads` import neither `codec` nor `proxy`: a mistake shared by
server and generator would cancel itself out.
"""
