"""PEM files that may change while the server runs: TLS for clients, read again when a file has changed.

Reading blocks, so `follow` does it in a thread. Open connections keep the keys that they began with.
"""

import asyncio
import logging
import os
import re
import ssl
from collections.abc import Callable, Sequence
from dataclasses import replace

from proxy.frontend import certificate_ends
from proxy.frontend.certificate_ends import Certificate
from proxy.options.tls import ClientTls
from proxy.support.environment import HOST
from proxy.support.validity import fault_of, reason_of

log = logging.getLogger(__name__)

_INTERVAL = 1.0  # seconds between checks of the files

_CLIENT_AUTH = {"none": ssl.CERT_NONE, "want": ssl.CERT_OPTIONAL, "need": ssl.CERT_REQUIRED}
_MIN_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

# A new content changes one of these: a file's device and inode, the time of its last change, its size.
_Print = tuple[int, int, int, int] | None


def context_of(settings: ClientTls) -> ssl.SSLContext:
    """Read the files. Blocks. Raises ValueError that names the wrong file."""
    for file, word in (
        (settings.cert, "CERTIFICATE"),
        (settings.key, "PRIVATE KEY"),
        (settings.ca, "CERTIFICATE"),
    ):
        if file:
            _demand(file, word)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _MIN_VERSIONS[settings.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(settings.cert, settings.key, settings.key_password)
    except ssl.SSLError as error:
        raise ValueError(
            f"the certificate {settings.cert} with the key {settings.key}: {reason_of(error, settings.key)}"
        ) from error
    fault = fault_of(settings.cert, settings.key, settings.key_password)
    if fault:
        raise ValueError(f"the certificate {settings.cert}: {fault}")
    try:
        if settings.ca:
            context.load_verify_locations(settings.ca)
    except ssl.SSLError as error:
        raise ValueError(f"the CA {settings.ca}: {reason_of(error)}") from error
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    try:
        if settings.ciphers:
            context.set_ciphers(settings.ciphers)
    except ssl.SSLError as error:
        raise ValueError(f"the ciphers {settings.ciphers!r}: {reason_of(error)}") from error
    return context


class TlsContext:
    """The TLS context for new connections, made from the current files."""

    def __init__(self, settings: ClientTls) -> None:
        """Blocks to read the files. Raises ValueError that names the wrong file."""
        self.settings = settings
        self._changes = Changes(settings.files)
        self.certificates: list[Certificate] = []  # those in use: a file that is bad is not
        self._read()

    def for_listener(self, *, asks: bool = True) -> ssl.SSLContext:
        """A context for a listener that keeps it. Each handshake uses the certificate that is current then.

        The CA that it trusts does not change. `asks`: whether clients are asked for certificates as the
        settings say, or not at all. Blocks.
        """
        made = context_of(self.settings if asks else replace(self.settings, client_auth="none"))

        def show_current(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            connection.context = self.current

        made.sni_callback = show_current
        return made

    def for_peers(self) -> ssl.SSLContext:
        """For connections to other proxies, whose certificates the settings' CA, if any, has to have signed.

        Blocks. Raises OSError.
        """
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.check_hostname = False  # the secret in etcd tells who the other end is
        made.verify_mode = ssl.CERT_REQUIRED if self.settings.ca else ssl.CERT_NONE
        if self.settings.ca:
            made.load_verify_locations(self.settings.ca)
        return made

    async def follow(self) -> None:
        """Read the files again whenever they change. If they are bad, log that and keep the former ones."""
        await self._changes.follow(self._read, "the certificate for clients")

    def _read(self) -> None:
        self.current = context_of(self.settings)
        files = {"--tls-cert": self.settings.cert, "--tls-ca": self.settings.ca}
        self.certificates = certificate_ends.read(files, HOST.clock.time())


class Changes:
    """Detects when one of some files has changed."""

    def __init__(self, files: Sequence[str]) -> None:
        """Blocks to read the files' status."""
        self._files = files
        self._seen = self._look()

    async def follow(self, read: Callable[[], object], what: str) -> None:
        """Call `read` in a thread after each change. It raises OSError or ValueError for bad files."""
        while True:
            await asyncio.sleep(_INTERVAL)
            await asyncio.to_thread(self._check, read, what)

    def _check(self, read: Callable[[], object], what: str) -> None:
        now = self._look()
        if now == self._seen:
            return
        # The status from before the reading: a file that changes meanwhile is read again.
        self._seen = now
        try:
            read()
        except (OSError, ValueError) as error:
            log.warning("%s has changed, but is kept as it was: %s", what, error)
        else:
            log.info("%s has changed and was read again", what)

    def _look(self) -> list[_Print]:
        return [_print_of(file) for file in self._files]


def _print_of(file: str) -> _Print:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _demand(file: str, word: str) -> None:
    """Raise a clear error: OpenSSL's own ones name neither the file nor the fault."""
    try:
        with open(file, "rb") as stream:
            content = stream.read()
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}") from error
    if not re.search(b"-----BEGIN [A-Z0-9 ]*" + word.encode(), content):
        raise ValueError(f"{file} holds no {word.lower()} in PEM")
