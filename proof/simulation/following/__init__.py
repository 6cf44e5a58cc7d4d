"""Worlds of the kind "follow": a tree that follows a ZooKeeper, the cut-over, and the way back.

`world`      one such world of a seed: its phases, and the judgement at the end
`source`     a ZooKeeper: a naive one, what its clients do by chance, and its files
`zk_format`  ZooKeeper's files as bytes, both ways: shares no code with pipeline.formats
`judge`      whether the tree in etcd is the source's after each commit, and who may serve it
`followers`  the processes of the commands, which are the real code on simulated hosts
`faults`     what happens to these processes
`seams`      the clocks, random values and output of pipeline.follow
"""
