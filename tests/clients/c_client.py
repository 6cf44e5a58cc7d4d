"""ZooKeeper's C client, Debian's libzookeeper-mt2, called as a C program would.

Here: those of its synchronous functions that the tests use. The structures and numbers are those of its
zookeeper.h (3.8).
"""

import ctypes
import os
import queue
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab.servers import BinaryMissing

PERSISTENT, EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL, CONTAINER, WITH_TTL, SEQUENTIAL_WITH_TTL = range(7)
CREATED, DELETED, CHANGED, CHILD, SESSION = 1, 2, 3, 4, -1
AUTH_FAILED_STATE, CONNECTED_STATE = -113, 3
ALL = 31

_ADVICE = "make test installs it where it may use apt"
_PATH_SIZE = 1024


class Stat(ctypes.Structure):
    _fields_ = [
        ("czxid", ctypes.c_int64),
        ("mzxid", ctypes.c_int64),
        ("ctime", ctypes.c_int64),
        ("mtime", ctypes.c_int64),
        ("version", ctypes.c_int32),
        ("cversion", ctypes.c_int32),
        ("aversion", ctypes.c_int32),
        ("ephemeral_owner", ctypes.c_int64),
        ("data_length", ctypes.c_int32),
        ("num_children", ctypes.c_int32),
        ("pzxid", ctypes.c_int64),
    ]


class _Acl(ctypes.Structure):
    _fields_ = [("perms", ctypes.c_int32), ("scheme", ctypes.c_char_p), ("id", ctypes.c_char_p)]


class _AclVector(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("data", ctypes.POINTER(_Acl))]


class _Strings(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("data", ctypes.POINTER(ctypes.c_char_p))]


class _ClientId(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int64), ("password", ctypes.c_char * 16)]


_WATCHER = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p
)
_COMPLETION = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)
_STRING_COMPLETION = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


def library() -> ctypes.CDLL:
    """The library, with the log switched off. Raises BinaryMissing."""
    try:
        loaded = ctypes.CDLL("libzookeeper_mt.so.2")
    except OSError as error:
        raise BinaryMissing(f"libzookeeper-mt2 is not installed ({error}): {_ADVICE}") from None
    loaded.zookeeper_init.restype = ctypes.c_void_p
    loaded.zookeeper_init.argtypes = [
        *(ctypes.c_char_p, _WATCHER, ctypes.c_int, ctypes.POINTER(_ClientId), ctypes.c_void_p, ctypes.c_int)
    ]
    loaded.zoo_client_id.restype = ctypes.POINTER(_ClientId)
    loaded.zoo_set_debug_level(0)
    loaded.zoo_deterministic_conn_order(1)
    return loaded


def shell_program() -> str:
    """The path of cli_mt, the C client's shell. Raises BinaryMissing."""
    for folder in (*os.environ["PATH"].split(os.pathsep), "/usr/lib/zookeeper/bin"):
        if (program := Path(folder) / "cli_mt").exists():
            return str(program)
    raise BinaryMissing(f"cli_mt of zookeeper-bin is not installed: {_ADVICE}")


class Refused(Exception):
    """A call returned a code other than 0: ZooKeeper's, or the library's own."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


def _open_acl() -> _AclVector:
    """All permissions for `world:anyone`."""
    return _AclVector(1, (_Acl * 1)(_Acl(ALL, b"world", b"anyone")))


class Watch:
    """A watcher; `told` gets (event, path). Keep it until it has fired: C knows it by its address only."""

    def __init__(self) -> None:
        self.told = queue.SimpleQueue[tuple[int, str]]()
        self.function = _WATCHER(self._tell)

    def next(self) -> tuple[int, str]:
        """The next event of a node; those of the session are passed over."""
        while (event := self.told.get(timeout=30))[0] == SESSION:
            pass
        return event

    def _tell(self, _handle: int, event: int, _state: int, path: bytes, _context: int) -> None:
        self.told.put((event, path.decode()))


class CClient:
    """One handle. Methods raise Refused."""

    def __init__(self, hosts: str, timeout_ms: int = 10_000, timeout: float = 30) -> None:
        """Connect to one of `hosts` in their order; raises TimeoutError after `timeout` seconds."""
        self._library = library()
        self._states = queue.SimpleQueue[int]()
        self._watcher = _WATCHER(self._session_event)
        self._handle = ctypes.c_void_p(
            self._library.zookeeper_init(hosts.encode(), self._watcher, timeout_ms, None, None, 0)
        )
        self.wait_for(CONNECTED_STATE, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._library.zookeeper_close(self._handle)

    @property
    def session(self) -> int:
        """The session's id."""
        return int(self._library.zoo_client_id(self._handle).contents.id)

    @property
    def state(self) -> int:
        return int(self._library.zoo_state(self._handle))

    def wait_for(self, state: int, timeout: float = 30) -> None:
        """Wait until the session's events tell this state. Raises TimeoutError."""
        try:
            while self._states.get(timeout=timeout) != state:
                pass
        except queue.Empty:
            raise TimeoutError(f"state {state} did not come within {timeout} s") from None

    def create(
        self, path: str, data: bytes | None = b"", mode: int = PERSISTENT, ttl: int = -1
    ) -> tuple[str, Stat]:
        """The path made and its Stat; `ttl` in milliseconds for the modes that have one."""
        made, stat, vector = ctypes.create_string_buffer(_PATH_SIZE), Stat(), _open_acl()
        self._call(
            *("zoo_create2_ttl", path.encode(), data, _length(data), ctypes.byref(vector), mode),
            *(ctypes.c_int64(ttl), made, _PATH_SIZE, ctypes.byref(stat)),
        )
        return made.value.decode(), stat

    def create_without_stat(self, path: str, mode: int = PERSISTENT) -> str:
        """create, by the older request."""
        made, vector = ctypes.create_string_buffer(_PATH_SIZE), _open_acl()
        self._call("zoo_create", path.encode(), b"", 0, ctypes.byref(vector), mode, made, _PATH_SIZE)
        return made.value.decode()

    def delete(self, path: str, version: int = -1) -> None:
        self._call("zoo_delete", path.encode(), version)

    def exists(self, path: str, watch: Watch | None = None) -> Stat:
        stat = Stat()
        self._call("zoo_wexists", path.encode(), *_watcher(watch), ctypes.byref(stat))
        return stat

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes | None, Stat]:
        """The data, None where they are null, and the Stat."""
        size = ctypes.c_int(2**21)
        buffer, stat = ctypes.create_string_buffer(size.value), Stat()
        self._call(
            *("zoo_wget", path.encode(), *_watcher(watch)), buffer, ctypes.byref(size), ctypes.byref(stat)
        )
        return (None if size.value < 0 else buffer.raw[: size.value]), stat

    def set(self, path: str, data: bytes | None, version: int = -1) -> Stat:
        stat = Stat()
        self._call("zoo_set2", path.encode(), data, _length(data), version, ctypes.byref(stat))
        return stat

    def children(self, path: str, watch: Watch | None = None) -> tuple[list[str], Stat]:
        strings, stat = _Strings(), Stat()
        self._call(
            "zoo_wget_children2", path.encode(), *_watcher(watch), ctypes.byref(strings), ctypes.byref(stat)
        )
        try:
            return [strings.data[i].decode() for i in range(strings.count)], stat
        finally:
            self._library.deallocate_String_vector(ctypes.byref(strings))

    def authenticate(self, scheme: str, credentials: bytes) -> None:
        """Raises Refused where the server does not take them; it has closed the session then."""
        done = queue.SimpleQueue[int]()
        completion = _COMPLETION(lambda code, _data: done.put(code))
        self._call("zoo_add_auth", scheme.encode(), credentials, len(credentials), completion, None)
        if code := done.get(timeout=30):
            raise Refused(code)

    def sync(self, path: str = "/") -> None:
        done = queue.SimpleQueue[int]()
        completion = _STRING_COMPLETION(lambda code, _path, _data: done.put(code))
        self._call("zoo_async", path.encode(), completion, None)
        if code := done.get(timeout=30):
            raise Refused(code)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(self._handle, *arguments)
        if code:
            raise Refused(code)

    def _session_event(self, _handle: int, event: int, state: int, _path: bytes, _context: int) -> None:
        if event == SESSION:
            self._states.put(state)


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _watcher(watch: Watch | None) -> tuple[object, None]:
    return (None if watch is None else watch.function), None
