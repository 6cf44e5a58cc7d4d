"""The error that an operation answers: one of ZooKeeper's codes, never a traceback."""

from codec.constants import ErrorCode


class Refusal(Exception):
    """An operation's answer is an error code."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code)
        self.code = code
