"""What an HTTP/2 connection sends: frames that leave in one write, and requests as flow control allows."""

import asyncio
from collections import deque

from proxy.etcd.frames import (
    ACK,
    DATA,
    DEFAULT_FRAME,
    DEFAULT_WINDOW,
    END_STREAM,
    INITIAL_WINDOW_SIZE,
    LARGEST,
    MAX_FRAME_SIZE,
    MESSAGE,
    PING,
    SETTINGS,
    frame,
)

# Go's gRPC pings at the first data after each answer to a ping, to measure how much the connection holds.
# A single Txn would wake both sides twice. The answer is of use at once only while a request waits for the
# window of the peer. Otherwise it is delayed for so many seconds, and then leaves with other frames.
_PONG_DELAY = 0.1


class Upload:
    """Our side of one stream: what is still to be sent, and how much the peer takes."""

    __slots__ = ("closed", "pending", "stream", "window")

    def __init__(self, stream: int, window: int) -> None:
        self.stream = stream
        self.window = window  # bytes that the peer still takes
        self.pending: deque[memoryview] = deque()
        self.closed = False  # nothing follows `pending`

    @property
    def finished(self) -> bool:
        """Whether the peer has everything."""
        return self.closed and not self.pending


class Sender:
    """The sending side of one connection."""

    __slots__ = (
        "_frames",
        "_initial_window",
        "_loop",
        "_max_frame",
        "_pongs",
        "_pongs_since",
        "_waiting",
        "_window",
        "transport",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._frames: list[bytes] = []  # they leave in one write: each write costs a system call
        self._window = DEFAULT_WINDOW
        self._initial_window = DEFAULT_WINDOW
        self._max_frame = DEFAULT_FRAME
        self._waiting: dict[int, Upload] = {}  # by stream: those with something to send
        self._pongs: list[bytes] = []
        self._pongs_since = 0.0
        self.transport: asyncio.Transport | None = None

    def upload(self, stream: int) -> Upload:
        """Our side of a new stream."""
        return Upload(stream, self._initial_window)

    def add(self, data: bytes) -> None:
        """Send a frame with the next `flush`."""
        self._frames.append(data)

    def send(self, upload: Upload, message: bytes, *, last: bool) -> None:
        """Send one message of a request; `last`: nothing follows it."""
        upload.closed = last
        upload.pending.append(memoryview(MESSAGE.pack(0, len(message)) + message))
        self._waiting[upload.stream] = upload
        self._fill()
        self.flush()

    def discard(self, upload: Upload) -> None:
        """The stream is over: send nothing more of it."""
        upload.pending.clear()
        self._waiting.pop(upload.stream, None)

    def flush(self) -> None:
        """Write what has gathered."""
        pongs = self._pongs
        if pongs and (self._waiting or self._loop.time() - self._pongs_since >= _PONG_DELAY):
            self._frames += pongs
            pongs.clear()
        frames = self._frames
        if frames:
            self._frames = []
            if self.transport is not None:
                self.transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    # -- what the peer says about it -------------------------------------------------------------------------

    def answer_ping(self, payload: bytes) -> None:
        """The peer has sent a ping."""
        if not self._pongs:
            self._pongs_since = self._loop.time()
        self._pongs.append(frame(PING, ACK, 0, payload))

    def apply(self, settings: list[tuple[int, int]], uploads: list[Upload]) -> None:
        """The peer has sent settings; `uploads` are open. Raises ValueError for a window that overflows."""
        for name, value in settings:
            if name == INITIAL_WINDOW_SIZE:
                for upload in uploads:
                    upload.window += value - self._initial_window
                    if upload.window > LARGEST:
                        raise ValueError("settings: a window too large")
                self._initial_window = value
            elif name == MAX_FRAME_SIZE:
                self._max_frame = value
        self.add(frame(SETTINGS, ACK, 0))
        self._fill()

    def widen(self, size: int) -> None:
        """The peer takes so many more bytes on the connection. Raises ValueError if that cannot be."""
        self._window += size
        if not size or self._window > LARGEST:
            raise ValueError(f"window: {size} bytes more")
        self._fill()

    def widen_stream(self, upload: Upload, size: int) -> bool:
        """The peer takes so many more bytes of this stream; False if that cannot be."""
        upload.window += size
        if not size or upload.window > LARGEST:
            return False
        self._fill()
        return True

    def _fill(self) -> None:
        """Send what the windows allow, a frame of each stream in turn."""
        waiting = self._waiting
        while waiting:
            sent = False
            for upload in list(waiting.values()):
                data = upload.pending[0]
                room = min(self._max_frame, upload.window, self._window)
                if room <= 0:
                    continue
                if len(data) <= room:
                    upload.pending.popleft()
                else:
                    upload.pending[0], data = data[room:], data[:room]
                self._frames.append(frame(DATA, END_STREAM if upload.finished else 0, upload.stream, data))
                upload.window -= len(data)
                self._window -= len(data)
                if not upload.pending:
                    del waiting[upload.stream]
                sent = True
            if not sent:
                return
