"""Certificates for tests: an authority, what it issues, and the files that servers and clients want."""

import contextlib
import datetime
import ssl
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


def _far(now: datetime.datetime) -> datetime.datetime:
    return now + datetime.timedelta(days=1)


class Pair(NamedTuple):
    """A certificate and its key in PEM files, and both in one, as Java's PEM key stores have it."""

    cert: Path
    key: Path
    both: Path


class Authority:
    """A CA whose files lie in a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.authority = trustme.CA(organization_name=name)
        self._folder = folder
        self.ca = folder / f"{name}.pem"
        self.authority.cert_pem.write_to_path(str(self.ca))

    def issue(self, name: str, *hosts: str, common_name: str | None = None) -> Pair:
        """A certificate for the hosts, in files that are called after `name`; older ones are replaced."""
        leaf = self.authority.issue_cert(*(hosts or (f"{name}.example.org",)), common_name=common_name)
        chain = b"".join(pem.bytes() for pem in leaf.cert_chain_pems)
        return self.write(name, chain, leaf.private_key_pem.bytes())

    def issue_for(self, name: str, subject: x509.Name) -> Pair:
        """A certificate for a subject of any kind."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        issuer = x509.load_pem_x509_certificate(self.authority.cert_pem.bytes())
        builder = x509.CertificateBuilder(
            issuer.subject, subject, key.public_key(), x509.random_serial_number(), now, _far(now)
        )
        signer = load_pem_private_key(self.authority.private_key_pem.bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        certificate = builder.sign(signer, hashes.SHA256())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return self.write(name, certificate.public_bytes(Encoding.PEM), pem)

    def client_context(self, pair: Pair | None = None) -> ssl.SSLContext:
        """For a client that trusts this authority, with a certificate or without."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        return context

    def hello(self) -> bytes:
        """What a client sends first, in one record."""
        sent = ssl.MemoryBIO()
        client = self.client_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="127.0.0.1")
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        return sent.read()

    def write(self, name: str, chain: bytes, key: bytes) -> Pair:
        """The files of a certificate chain and its key, in PEM."""
        # Java reads PKCS 8 alone.
        key = load_pem_private_key(key, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        pair = Pair(*(self._folder / f"{name}.{kind}.pem" for kind in ("cert", "key", "both")))
        for file, content in zip(pair, (chain, key, key + chain), strict=True):
            fresh = file.with_suffix(".new")
            fresh.write_bytes(content)
            fresh.replace(file)
        return pair
