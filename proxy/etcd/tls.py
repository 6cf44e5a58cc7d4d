"""Keys and certificates for https endpoints of etcd, and what is wrong with them. Connects to nothing."""

import ssl
from pathlib import Path
from typing import NamedTuple

from proxy.support.validity import fault_of, reason_of


class Pem(NamedTuple):
    """Authorities, and a client certificate with its key if there is one, in PEM."""

    authorities: bytes
    certificate: bytes | None
    key: bytes | None


class Tls:
    """PEM files; "" leaves one out. They are read again for each connection: renewed ones need no restart."""

    def __init__(
        self, ca_file: str = "", cert_file: str = "", key_file: str = "", server_name: str = ""
    ) -> None:
        """Without `ca_file` the system's roots are trusted. `cert_file` and `key_file` go together.

        `server_name` is the name that the certificate of the server must have, if not the endpoint's host.
        Blocks to read the files. Raises OSError, also for an expired certificate, and ValueError for a
        certificate without key or the reverse.
        """
        if bool(cert_file) != bool(key_file):
            raise ValueError("a client certificate and its key are needed together")
        self._files = (ca_file, cert_file, key_file)
        self.server_name = server_name
        self.context()
        fault = fault_of(cert_file, key_file) if cert_file else ""
        if fault:
            raise OSError(f"the certificate for etcd {cert_file}: {fault}")

    def context(self) -> ssl.SSLContext:
        """A context with the files as they are now. Blocks; raises OSError."""
        ca_file, cert_file, key_file = self._files
        for name in filter(None, self._files):
            with open(name, "rb"):  # ssl's own errors do not name the file
                pass
        try:
            context = ssl.create_default_context(cafile=ca_file or None)
        except ssl.SSLError as error:
            raise OSError(f"the CA of etcd {ca_file}: {reason_of(error)}") from error
        try:
            if cert_file:
                # Without a password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(cert_file, key_file, "")
        except ssl.SSLError as error:
            raise OSError(
                f"the certificate for etcd {cert_file} with the key {key_file},"
                f" which must not be encrypted: {reason_of(error, key_file)}"
            ) from error
        context.set_alpn_protocols(["h2"])
        return context

    def pem(self) -> Pem:
        """The files as they are now. Blocks; raises OSError."""
        ca_file, cert_file, key_file = self._files
        return Pem(
            Path(ca_file).read_bytes() if ca_file else _system_authorities(),
            Path(cert_file).read_bytes() if cert_file else None,
            Path(key_file).read_bytes() if key_file else None,
        )


def explained(error: BaseException) -> str:
    """Why a connection to etcd failed. OpenSSL's words do not say whose certificate is meant."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message} (--etcd-ca names its authority)"
    reason = getattr(error, "reason", None) or ""
    if isinstance(error, ssl.SSLError) and "ALERT" in reason and "CERTIFICATE" in reason:
        return "it does not accept our certificate, or we showed none (--etcd-cert, --etcd-key)"
    return str(error) or type(error).__name__


def _system_authorities() -> bytes:
    """The certificates that OpenSSL trusts without a `ca_file`, as PEM."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile:
        return Path(paths.cafile).read_bytes()
    # OpenSSL looks a certificate up by the hash of its subject: 8 hexadecimal digits and a number.
    names = sorted(Path(paths.capath).glob("[0-9a-f]*.[0-9]")) if paths.capath else []
    return b"\n".join(name.read_bytes() for name in names)
