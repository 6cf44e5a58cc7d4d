"""What the codec raises for bytes that it cannot read. Nothing here knows what a server answers to it."""


class MalformedPacket(ValueError):
    """The bytes are not a record of ZooKeeper's protocol: cut short, or with a length that cannot be."""


class NullString(MalformedPacket):
    """A packet that is whole, but its path is jute's null (length -1).

    ZooKeeper decodes it and fails later, so that its answer may differ from the one to a cut packet.
    `end` is the position behind what was read.
    """

    def __init__(self, message: str, end: int) -> None:
        super().__init__(message)
        self.end = end


class FrameTooLong(MalformedPacket):
    """A frame announces a length below 0 or above the limit.

    `frames` holds the complete frames that came before it in the same chunk: ZooKeeper has taken them in
    by the time it meets the bad length and drops the connection. `rest` is what follows that length in it.
    """

    def __init__(self, length: int, limit: int, frames: list[bytes], rest: bytes = b"") -> None:
        super().__init__(f"frame length {length} is not within 0..{limit}")
        self.length = length
        self.limit = limit
        self.frames = frames
        self.rest = rest
