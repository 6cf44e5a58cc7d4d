"""Errors of ZooKeeper's files, and which damage a reader may accept."""

from pipeline.errors import Failure

# The damage that `repair` may allow.
TAIL = "tail"  # the last log is used up to its first damage, as by a ZooKeeper that starts
GAP = "gap"  # transactions are missing between two logs, or a snapshot and a log
REPAIRS = frozenset({TAIL, GAP})


class BadFile(Failure):
    """The content of a file is wrong; the message names the file and, if there is one, the byte."""

    def __init__(self, file: str, offset: int | None, reason: str) -> None:
        """`offset` counts uncompressed bytes from the file's start."""
        where = file if offset is None else f"{file}, byte {offset}"
        super().__init__(f"{where}: {reason}")
        self.file = file
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[type["BadFile"], tuple[str, int | None, str]]:
        """For pickle: errors are sent from Spark's workers to the driver."""
        return type(self), (self.file, self.offset, self.reason)
