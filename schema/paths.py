"""znode paths: which are valid, and how to take them apart.

The rules are those of ZooKeeper's `PathUtils.validatePath`; the server applies them to the paths of
writes only, so a read of an odd path simply finds no node.
"""

import re

# A step is neither "." nor ".." and holds no "/" and none of the characters that ZooKeeper rejects:
# controls, surrogates and the private use area (so every character beyond the BMP), U+FFF0-FFFF.
_STEP = r"(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]+"
_VALID = re.compile(rf"/|(?:/{_STEP})+")
_NUMBER = re.compile(r"[0-9]{10}$")

ROOT = "/"
ZOOKEEPER = "/zookeeper"
QUOTA = "/zookeeper/quota"
CONFIG = "/zookeeper/config"

# Nodes that every tree has from the start; DataTree.isSpecialPath forbids to delete them.
SPECIAL_PATHS = frozenset((ROOT, ZOOKEEPER, QUOTA, CONFIG))


def is_valid(path: str) -> bool:
    """Whether ZooKeeper's `PathUtils.validatePath` accepts the path."""
    # Most paths are plain, which takes half as long to see as the whole rule to match: in printable ASCII
    # only slashes, and a dot behind one, can be wrong.
    if (
        path.isascii()
        and path.isprintable()
        and "//" not in path
        and "/." not in path
        and path[:1] == "/" != path[-1:]
    ):
        return True
    return _VALID.fullmatch(path) is not None


def parent_of(path: str) -> str:
    """The parent's path; `/` for a child of the root. The path must hold a `/`."""
    return path[: path.rindex("/")] or ROOT


def split(path: str) -> tuple[str, str]:
    """(parent path, name) of a path that holds a `/`."""
    parent, _, name = path.rpartition("/")
    return parent or ROOT, name


def join(parent: str, name: str) -> str:
    """The path of the child `name` of `parent`."""
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


def without_number(path: str) -> str:
    """A sequential node's path without its number; if it has no number yet, the path."""
    return _NUMBER.sub("", path)


def prefix_of(path: str, depth: int) -> str:
    """The first names of a path, the last one without the number of a sequential node."""
    return without_number("/".join(path.split("/", depth + 1)[: depth + 1])) or ROOT
