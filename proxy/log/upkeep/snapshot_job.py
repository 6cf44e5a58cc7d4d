"""What a proxy gives its snapshot writer to do, and what that answers: one line of JSON each. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from schema.record import SnapshotRef, pack_snapshot, unpack_snapshot

#: Bytes a second. Etcd writes 40 to 60 MB/s in all; puts of 512 KiB back to back made appends wait 0.4 s.
PACE = 8 << 20


class Job(NamedTuple):
    """Write a snapshot in the name of an incarnation, or find out what a digest was."""

    prefix: str
    incarnation: str = ""
    revision: int = 0  # at which its key was put
    pace: float = PACE  # bytes a second that are written
    digest_after: int | None = None  # so many entries; nothing is written
    as_of: int = 0  # write it as of this revision of etcd; 0: as of now

    def as_json(self) -> dict[str, Any]:
        """Its members of the line."""
        return self._asdict()


def job_of(members: Mapping[str, Any]) -> Job:
    """The job of a line, which may have other members too."""
    return Job(**{name: members[name] for name in Job._fields if name in members})


class Written(NamedTuple):
    """A snapshot was written, and the log truncated."""

    ref: SnapshotRef | None  # None: there was nothing to write
    entries_deleted: int
    pages_deleted: int
    log_bytes: int  # replayed since the former snapshot
    log_requests: int
    disagreements: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The line."""
        return {"ok": True, **self._asdict(), "ref": pack_snapshot(self.ref)}


class DigestAnswer(NamedTuple):
    """The digest that was asked for."""

    digest: int

    def as_json(self) -> dict[str, Any]:
        """The line."""
        return {"ok": True, "digest": f"{self.digest:016x}"}


class Failed(NamedTuple):
    """Nothing was done, or not all of it."""

    error: str
    is_overtaken: bool = False  # another snapshot was faster, or compaction, for one `as_of`
    is_gone: bool = False  # the incarnation is over

    def as_json(self) -> dict[str, Any]:
        """The line."""
        return {"ok": False, **self._asdict()}


Answer: TypeAlias = Written | DigestAnswer | Failed


def answer_of(members: Mapping[str, Any]) -> Answer:
    """The answer of a line. Raises KeyError, TypeError, ValueError."""
    if not members["ok"]:
        return Failed(*(members[name] for name in Failed._fields))
    if "digest" in members:
        return DigestAnswer(int(members["digest"], 16))
    _, *rest = Written._fields
    return Written(unpack_snapshot(members["ref"]), *(members[name] for name in rest))
