"""Where an archive is, as options name it, and the options of a proxy that archives its tree."""

import re
from argparse import ArgumentTypeError
from dataclasses import dataclass
from typing import Literal

from proxy.options.table import option
from proxy.options.values import checked

ALLOWED, ALL = "allowed", "all"
SCHEMES = ("s3", "gs", "az")
"""Object stores."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def archive_url(text: str) -> str:
    """A directory whose name has a slash, or a store: a bare word may be a command that was misspelt."""
    scheme, separator, rest = text.partition("://")
    if not (
        re.match(r"\.{0,2}/", text)
        or text in (".", "..")
        or ("/" in text and ":" not in text)
        or (text.startswith("file:") and re.match(r"(//)?/", text[5:]))
        or (separator and scheme in SCHEMES and rest)
    ):
        here = "archive" if not text or ":" in text else text
        raise ArgumentTypeError(
            f"{text!r} is no archive: give a directory with a slash, such as ./{here} or"
            f" /var/backups/archive, or one of {'://, '.join(SCHEMES)}://"
        )
    return text


def duration_ms(text: str) -> int:
    """A duration such as 90s, 10m, 2h or 30d, in milliseconds. Raises ValueError."""
    found = re.fullmatch(r"([0-9]+)([smhd])", text)
    if found is None:
        raise ValueError(f"{text!r} is no duration such as 90s, 10m, 2h or 30d")
    return int(found[1]) * _UNITS[found[2]] * 1000


@checked
def duration(text: str) -> int:
    """A duration in milliseconds; "" for none."""
    return duration_ms(text) if text else 0


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """How this proxy takes part in archiving its tree."""

    url: str = option(  # "" for none
        "archive of every change of the tree: a directory that all proxies share, or s3://BUCKET/PATH. The"
        " eldest living proxy with this option writes it, in a child process (docs/archive.md)",
        name="--archive",
        type=lambda text: archive_url(text) if text else "",
        metavar="URL",
    )
    keep_ms: int = option(  # 0 for everything
        "delete what is older from the archive, such as 30d; nothing by default",
        name="--archive-keep",
        type=duration,
        metavar="DURATION",
    )
    at: str = option(
        "with --archive and --read-only: serve the tree as it was at a time (UTC), zxid (0x...) or position,"
        " or so long ago (10m), instead of archiving it; the archive's newest state by default",
        metavar="MOMENT",
    )
    read_only: Literal["", "allowed", "all"] = option(  # "" for a proxy of the present
        f"with --archive: serve a moment of the archive, without etcd. {ALLOWED}: as ZooKeeper's read-only"
        f" mode, to clients that ask for it (canBeReadOnly); {ALL}: to all clients",
        choices=(ALLOWED, ALL),
        nargs="?",
        const=ALLOWED,
        final=lambda found: found or "",
    )


def check(given: ArchiveOptions) -> None:
    """Raises ValueError for an option without its partner."""
    if given.read_only and (not given.url or given.keep_ms):
        raise ValueError("--read-only needs --archive, and excludes --archive-keep")
    if given.at and not given.read_only:
        raise ValueError("--at needs --archive and --read-only: what has happened cannot be changed")
    if given.keep_ms and not given.url:
        raise ValueError("--archive-keep needs --archive")
