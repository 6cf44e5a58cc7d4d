"""The names of the commands, and what each does. Imports nothing, so that a list of them is cheap."""

COMMANDS = {
    "archive": "keep every change of a tree outside etcd; also `archive list` and `archive verify`",
    "diff": "show what differs between two moments of an archive, or a moment and now",
    "revert": "bring a subtree back to a moment of an archive, by ordinary writes",
    "history": "show what has happened to a node or a subtree, from an archive",
}
