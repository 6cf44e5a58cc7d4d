"""Where an archive's files are: a directory, or an object store that the library obstore knows (s3://, gs://,
az://).

A file is written as a whole or not at all, and is not changed afterwards (but `complete` and `clock`).
"""

import contextlib
import errno
import os
import secrets
import socket
import threading
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol, TypeVar

from archive.files.catalog import ArchiveError
from archive.files.names import CLOCK, is_run
from proxy.options.archive import archive_url
from proxy.support.files import new_file, new_folder, sync_folder
from proxy.support.libraries import how_to_add

T = TypeVar("T")

# With one of these, obstore has credentials of S3, or knows where to get them.
_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_METADATA_ENDPOINT",
    "AWS_SKIP_SIGNATURE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
# Else it asks the host's metadata service, as on EC2. Elsewhere it would try for minutes.
_METADATA = ("169.254.169.254", 80)
_METADATA_TIMEOUT = 1.0  # seconds
_NO_CREDENTIALS = (
    "there are no credentials. Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION (the metadata"
    f" service of the host, {_METADATA[0]}, gave none"
)

_LEFT_OVER = 3600.0  # seconds after which no process writes a part any more


class StoreError(ArchiveError):
    """The store does not answer, or refuses."""


class Missing(StoreError):
    """There is no such file."""


class Store(Protocol):
    """The files of one archive. All methods block, and raise StoreError."""

    def put(self, name: str, value: bytes) -> None:
        """Write or replace a file."""
        ...

    def get(self, name: str) -> bytes:
        """Raises Missing."""
        ...

    def list(self) -> dict[str, int]:
        """The names and sizes of all files."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file that may be missing."""
        ...

    def tidy(self) -> None:
        """Delete what writers that were killed have left."""
        ...


def store_of(url: str) -> Store:
    """The store that a word of the command line names. Raises StoreError, ValueError."""
    try:
        archive_url(url)
    except ArgumentTypeError as error:
        raise ValueError(str(error)) from error
    if url.startswith("file:"):
        return Directory(url.removeprefix("file:").removeprefix("//"))
    return Objects(url) if "://" in url else Directory(url)


def existing(url: str) -> Store:
    """The same, to be read. Raises StoreError also for a directory that does not exist."""
    store = store_of(url)
    if isinstance(store, Directory) and not store.root.is_dir():
        raise StoreError(f"there is no directory {store.root}")
    return store


class Directory:
    """A directory, made when something is written. Its parent has to exist: it may be a mount point."""

    def __init__(self, path: str) -> None:
        self.root = Path(path).absolute()

    def put(self, name: str, value: bytes) -> None:
        place = self.root / name
        part = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
        with _reported(f"write {place}"):
            new_folder(self.root)
            new_folder(place.parent)
            try:
                with new_file(part) as file:
                    file.write(value)
                    file.flush()
                    os.fsync(file.fileno())
                part.rename(place)
                sync_folder(place.parent)
            finally:
                part.unlink(missing_ok=True)

    def get(self, name: str) -> bytes:
        place = self.root / name
        with _reported(f"read {place}"):
            if place.exists() and not place.is_file():  # a pipe would be waited for, a device would not end
                raise OSError(errno.EINVAL, "it is no regular file")
            return place.read_bytes()

    def list(self) -> dict[str, int]:
        found: dict[str, int] = {}
        with _reported(f"list {self.root}"):
            if not self.root.exists():
                if not self.root.parent.exists():
                    raise FileNotFoundError(2, "there is no such directory", str(self.root.parent))
                return {}
            for folder, folders, files in os.walk(self.root, onerror=_raise):
                above = Path(folder).relative_to(self.root)
                # Others are not the archive's: a volume has `lost+found`, which only root may list.
                folders[:] = [each for each in folders if is_run(each)]
                for file in files:
                    if not file.startswith("."):
                        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                            found[str(above / file)] = os.stat(os.path.join(folder, file)).st_size
        return found

    def delete(self, name: str) -> None:
        with _reported(f"delete {self.root / name}"):
            (self.root / name).unlink(missing_ok=True)

    def tidy(self) -> None:
        # Another writer may be writing what is new. In other folders nothing is the archive's.
        with _reported(f"tidy {self.root}"):
            runs = [each for each in self.root.glob("*") if is_run(each.name)]
            parts = [part for run in runs for part in run.glob(".*.*")]
            for part in (*parts, *self.root.glob(f".{CLOCK}.*")):
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - part.stat().st_mtime > _LEFT_OVER:
                        part.unlink()


def _raise(error: OSError) -> None:
    raise StoreError(f"cannot list {error.filename}: {error.strerror}") from error


@contextlib.contextmanager
def _reported(what: str) -> Any:
    try:
        yield
    except FileNotFoundError as error:
        raise Missing(f"cannot {what}: {error.strerror}") from error
    except OSError as error:
        raise StoreError(f"cannot {what}: {error.strerror}") from error


def _check_credentials(url: str, environment: Mapping[str, str]) -> None:
    """Raises StoreError if there are no credentials of S3, and no metadata service to ask for them."""
    if any(name in environment or name.lower() in environment for name in _CREDENTIALS):
        return
    try:
        socket.create_connection(_METADATA, _METADATA_TIMEOUT).close()
    except OSError as error:
        raise StoreError(f"{url}: {_NO_CREDENTIALS}: {error})") from error


class Objects:
    """An object store. Its credentials are in the environment, as other tools have them (AWS_...)."""

    def __init__(self, url: str) -> None:
        try:
            import obstore
            from obstore.exceptions import BaseError, NotFoundError
            from obstore.store import from_url
        except ImportError as error:
            raise StoreError(f"{url}: obstore is not installed: {how_to_add('archive')}") from error
        if url.startswith("s3:"):
            _check_credentials(url, os.environ)
        self._obstore = obstore
        self._errors, self._not_found = BaseError, (NotFoundError, FileNotFoundError)
        try:
            self._store = from_url(url)
        except BaseError as error:
            raise StoreError(f"{url}: {error}") from error

    def put(self, name: str, value: bytes) -> None:
        self._done(f"write {name}", lambda: self._obstore.put(self._store, name, value))

    def get(self, name: str) -> bytes:
        return self._done(f"read {name}", lambda: bytes(self._obstore.get(self._store, name).bytes()))

    def list(self) -> dict[str, int]:
        def found() -> dict[str, int]:
            return {each["path"]: each["size"] for page in self._obstore.list(self._store) for each in page}

        return self._done("list the archive", found)

    def delete(self, name: str) -> None:
        with contextlib.suppress(Missing):
            self._done(f"delete {name}", lambda: self._obstore.delete(self._store, name))

    def tidy(self) -> None:
        pass  # a put that was cut short leaves nothing

    def _done(self, what: str, call: Callable[[], T]) -> T:
        """The result of a call. Raises StoreError."""
        try:
            return _interruptible(call)
        except self._not_found as error:
            raise Missing(f"cannot {what}: there is no such file") from error
        except (self._errors, OSError) as error:
            said = str(error).partition("\n")[0]
            if _METADATA[0] in said:
                said = f"{_NO_CREDENTIALS}: {said})"
            raise StoreError(f"cannot {what}: {said}") from error


def _interruptible(call: Callable[[], T]) -> T:
    """The result of a call that looks at no signal, as obstore's: three minutes if a store does not answer.

    In a thread of its own, so that Ctrl-C ends the wait.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            result.set_exception(error)

    threading.Thread(target=run, name="object store", daemon=True).start()
    return result.result()
