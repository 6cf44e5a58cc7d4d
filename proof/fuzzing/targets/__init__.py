"""The table of targets: everything that takes bytes from a client, from etcd, or from a ZooKeeper's disk."""

from proof.fuzzing.target import Target
from proof.fuzzing.targets.calls import CALLS
from proof.fuzzing.targets.clients import CLIENTS
from proof.fuzzing.targets.connection import CONNECTION
from proof.fuzzing.targets.costs import COSTS
from proof.fuzzing.targets.etcd import ETCD
from proof.fuzzing.targets.files import FILES
from proof.fuzzing.targets.machine import MACHINE
from proof.fuzzing.targets.storage import STORAGE

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (*CLIENTS, *CONNECTION, *MACHINE, *COSTS, *STORAGE, *ETCD, *CALLS, *FILES)
}
