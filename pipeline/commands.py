"""The commands: the module and the summary of each. Listing them imports no other module."""

from typing import NamedTuple


class Command(NamedTuple):
    """A command; its module has run(arguments) -> exit code."""

    module: str
    summary: str


COMMANDS = {
    "import": Command("pipeline.jobs.import_", "copy a tree of ZooKeeper into etcd"),
    "export": Command(
        "pipeline.jobs.export", "write a tree in etcd as a snapshot for ZooKeeper, or as a table"
    ),
    "follow": Command(
        "pipeline.jobs.follow", "keep a tree in etcd level with a running ZooKeeper, or with another zketcd"
    ),
    "lost": Command(
        "pipeline.jobs.lost", "list what a lost source has and its copy has not, as lines of JSON"
    ),
    "verify": Command("pipeline.jobs.verify", "compare two trees, node by node and field by field"),
    "inspect": Command(
        "pipeline.jobs.inspect", "report what a tree contains, and what its logs show about writes"
    ),
}
