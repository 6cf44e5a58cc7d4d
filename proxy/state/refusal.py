"""The exception for an operation whose answer is an error: one of ZooKeeper's codes."""

from codec.constants import ErrorCode


class Refusal(Exception):
    """An operation's answer is an error code, seldom with a body."""

    def __init__(self, code: ErrorCode, body: bytes = b"") -> None:
        super().__init__(code)
        self.code = code
        self.body = body
