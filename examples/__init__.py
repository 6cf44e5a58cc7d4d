"""Programs that do to ZooKeeper what real users do, and check that nothing of it was lost.

Each workload is a package with a command: `python -m examples.NAME HOST:PORT`. It runs against any ZooKeeper,
Keeper or zketcd, checks its invariants while it runs and at its end, and prints throughput, latency and
requests for each step. README.md lists the workloads; workloads.md has figures.

* `invariants` says what is wrong when an invariant is violated.
* `steps` counts requests and time for each kind of step.
* `world` is what the hosts of a run share; `member` is a host whose sessions are fenced.
* `tree` creates and deletes subtrees.
* `observer` makes a workload's nodes, and waits for its hosts.
* `runner` is a run of simulated hosts, from their first session to the last check.
* `program` is what the commands have in common: options, comparison of two servers, tables, JSON, exit codes.
* `servers` starts real ZooKeeper and zketcd for `--start`.
"""
