"""What ClickHouse's main function does for replication, and the embedded library leaves out.

The library contains replicated tables and replicated databases. Four things that they need are done only by
the server's main function, and no setting or query does them: it sets the address that replicas publish and
the credentials of their fetches, it starts the threads that create a database's tables, and it lets DDL of
databases begin. Here they are done in the library's memory. The offsets are those of chdb-core 26.9.0 for
x86-64, a file that requirements/dev.txt pins by its hash. In another version look for them in the code that
uses the messages "Parameter 'interserver_http(s)_port' required" and "Replicated DDL queries are disabled",
and the name "CreateTablesThreadPool".
"""

import ctypes
import importlib.metadata
import platform
from typing import Final

RUNS: Final = platform.machine() == "x86_64"
"""Whether the offsets are known for this kind of processor."""

_VERSION = "26.9.0"

_LIBRARY = "_chdb.abi3.so"
# In the library: a pointer to the catalog of databases, which begins with a pointer to a pointer to what all
# contexts share; a function that returns the pool of threads, and one that starts a pool.
_CATALOG, _POOL, _START_POOL = 0x21FD65E8, 0xEA1C8C0, 0xEA1B580
# In the catalog: bool.
_DDL_MAY_BEGIN = 0x910
# In what contexts share: string, 16 bits, string, pointer to credentials.
_HOST, _PORT, _SCHEME, _CREDENTIALS = 0x150, 0x168, 0x170, 0x1B0
# A short string of libc++ lies in 24 bytes, the last of which is its length.
_STRING = 24
_NO_CREDENTIALS = ctypes.create_string_buffer(256)
_THREADS = 4


def finish_start(host: str, port: int) -> None:
    """Do it in this process's ClickHouse, which has started: it publishes `host`:`port`."""
    assert importlib.metadata.version("chdb-core") == _VERSION, "the offsets are those of another version"
    with open("/proc/self/maps") as maps:
        library = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(_LIBRARY))
    catalog = _pointer(library + _CATALOG)
    shared = _pointer(_pointer(catalog))
    for offset, text in ((_HOST, host), (_SCHEME, "http")):
        short = text.encode().ljust(_STRING - 1, b"\0") + bytes([len(text)])
        ctypes.memmove(shared + offset, short, _STRING)
    ctypes.c_uint16.from_address(shared + _PORT).value = port
    ctypes.c_void_p.from_address(shared + _CREDENTIALS).value = ctypes.addressof(_NO_CREDENTIALS)
    pool = ctypes.CFUNCTYPE(ctypes.c_void_p)(library + _POOL)()
    sizes = (ctypes.c_size_t,) * 3  # threads, idle threads, queue
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, *sizes)(library + _START_POOL)(pool, _THREADS, 0, _THREADS)
    ctypes.c_bool.from_address(catalog + _DDL_MAY_BEGIN).value = True


def _pointer(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value
