"""Which versions of etcd may be used, and for which known bugs a warning is logged. Pure.

tools/etcd_usable.sh has the same rule as `usable`.
"""

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


def _revokes_leases_wrongly(version: Version) -> bool:
    """etcd issue 15247: a former leader that wakes up revokes leases that the new leader has renewed."""
    if version[:2] == (3, 5):
        return version < (3, 5, 13)
    return version < (3, 4, 31)


def warnings(text: str) -> list[str]:
    """What an operator should know of an etcd that says it is of this version."""
    version = parse(text)
    if version is None:
        return []
    if not usable(version):
        return [
            f"etcd {version} can lose or corrupt data in a crash."
            " Upgrade it to 3.4.31 or newer, or to 3.5.13 or newer."
        ]
    if _revokes_leases_wrongly(version):
        return [
            f"etcd {version} may end the leases of living proxies after a pause of its leader (issue 15247)."
            " Proxies register again and no session is lost, but clients wait meanwhile."
            " Upgrade it to 3.4.31 or newer, or to 3.5.13 or newer."
        ]
    return []
