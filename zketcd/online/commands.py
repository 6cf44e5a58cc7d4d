"""The names of the commands, and what each does. Imports nothing, so that a list of them is cheap."""

COMMANDS = {
    "create": "create a node, as a client of a proxy",
    "set": "set a node's data, as a client of a proxy",
    "delete": "delete a node without children, as a client of a proxy",
    "rmr": "delete a node and all below it, as a client of a proxy",
    "acl": "change the ACLs of a subtree, as a client of a proxy; shows the changes first",
    "shell": "look at the tree and change it interactively, as a client of a proxy",
}
