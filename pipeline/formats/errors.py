"""Errors of ZooKeeper's files."""

from pipeline.errors import Failure


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
