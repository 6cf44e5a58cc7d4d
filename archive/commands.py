"""The names of the commands, and what each does. Imports nothing, so that a list of them is cheap."""

COMMANDS = {
    "archive": "keep every change of a tree outside etcd; also `archive list` and `archive verify`",
    "history": "show what has happened to a node or a subtree, from an archive",
}
