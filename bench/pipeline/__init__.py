"""How the pipeline bears size: import, export, verify and inspect of trees of millions of znodes.

`python -m bench.pipeline --nodes 5000000` makes a tree as ClickHouse leaves it, moves it into etcd and back
by `python -m pipeline`, and reports time, memory and CPU, and those of ZooKeeper's own tools where they can
do.

tree.py     the znodes of a made-up ClickHouse cluster; pure
make.py     such a tree as a snapshot, and a log behind it, through the pipeline's own sink
reading.py  one snapshot read by Spark, and nothing done with it
measure.py  a command's time, memory and CPU, its children's included
"""
