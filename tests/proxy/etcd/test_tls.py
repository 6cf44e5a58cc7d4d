"""What is said of a TLS connection to etcd that fails."""

import re
import ssl
from pathlib import Path

import pytest

from lab.servers.tls import Authority
from proxy.etcd.tls import Tls, explained


def _failure(ours: ssl.SSLObject, theirs: ssl.SSLObject) -> ssl.SSLError:
    """What a client sees of a handshake that fails."""
    for ask, side in ((ours.do_handshake, ours), (theirs.do_handshake, theirs)) * 2 + ((ours.read, ours),):
        try:
            ask()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            if side is ours:
                return error
    raise AssertionError("it succeeds")


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ("other", r"its certificate is not accepted: .+ \(--etcd-ca names its authority\)"),
        ("ca", r"it does not accept our certificate, or we showed none \(--etcd-cert, --etcd-key\)"),
    ],
)
def test_whose_certificate_is_refused_is_said(known: str, said: str, tmp_path: Path) -> None:
    """OpenSSL does not: `unable to get local issuer certificate`, `bad certificate`."""
    authority = Authority(tmp_path)
    Authority(tmp_path, "other")
    pair = authority.issue("server", "127.0.0.1")
    etcd = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.ca))
    etcd.verify_mode = ssl.CERT_REQUIRED
    etcd.load_cert_chain(pair.cert, pair.key)
    to_etcd, to_us = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = Tls(str(tmp_path / f"{known}.pem")).context()
    ours = context.wrap_bio(to_us, to_etcd, server_hostname="127.0.0.1")
    error = _failure(ours, etcd.wrap_bio(to_etcd, to_us, server_side=True))
    assert re.fullmatch(said, explained(error))
