"""Which versions of etcd may be used, and for which known bugs a warning is logged. Pure."""

from typing import NamedTuple


class Version(NamedTuple):
    """As etcd says it: 3.4.23."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def parse(text: str) -> Version | None:
    """The version in "3.5.21" or "3.6.0-rc.1"; None if it is not one."""
    numbers = text.partition("-")[0].partition("+")[0].split(".")
    if len(numbers) != 3 or not all(number.isdecimal() and number.isascii() for number in numbers):
        return None
    return Version(*map(int, numbers))


def usable(version: Version) -> bool:
    """Whether this etcd is free of the known ways to lose or corrupt data: 3.4.22+, 3.5.6+, 3.6+."""
    if version[:2] == (3, 5):
        return version >= (3, 5, 6)
    return version >= (3, 4, 22)


class Bug(NamedTuple):
    """A bug of etcd that users of zketcd can notice."""

    issue: int
    effect: str
    fixed: tuple[Version, ...]  # the first release without it of each older line; newer lines never had it

    def is_in(self, version: Version) -> bool:
        """Whether an etcd of this version has it."""
        of_line = [fixed for fixed in self.fixed if fixed[:2] == version[:2]]
        return version < (of_line or self.fixed)[0]


_OLD_READS = Bug(
    20418,
    "may answer a read with old data after a pause of a member. A proxy may then serve an old state for as"
    " long as it reaches no other member",
    (Version(3, 4, 42), Version(3, 5, 28), Version(3, 6, 9)),
)

#: Those that are warned of. docs/etcd-bugs.md has these and others.
BUGS = (
    Bug(
        15247,
        "may end the leases of living proxies after a pause of its leader. Proxies register again and no"
        " session is lost, but clients wait meanwhile",
        (Version(3, 4, 31), Version(3, 5, 13)),
    ),
    Bug(
        17529,
        "may leave out events of a watch that is slow. A proxy finds that within seconds and loads the tree"
        " again, but may have given wrong answers before",
        (Version(3, 4, 31), Version(3, 5, 13)),
    ),
    _OLD_READS,
)


def reads_are_new(text: str) -> bool:
    """Whether a linearizable read is never old if each member says that it is of such a version.

    Builds between two releases do not count: such a version does not say whether it has the fix.
    """
    version = parse(text)
    return version is not None and "-" not in text and not _OLD_READS.is_in(version)


def warnings(text: str) -> list[str]:
    """What an operator should know of an etcd that says it is of this version."""
    version = parse(text)
    if version is None:
        return []
    if not usable(version):
        return [f"etcd {version} can lose or corrupt data in a crash. {_upgrade(_OLD_READS.fixed)}"]
    return [
        f"etcd {version} {bug.effect} (issue {bug.issue}). {_upgrade(bug.fixed)}"
        for bug in BUGS
        if bug.is_in(version)
    ]


def _upgrade(fixed: tuple[Version, ...]) -> str:
    return f"Upgrade it to {' or newer, or to '.join(map(str, fixed))} or newer."
