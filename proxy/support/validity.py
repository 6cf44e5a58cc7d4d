"""What OpenSSL does not say about a certificate of ours: if it is in force, and why it cannot be loaded."""

import contextlib
import ssl
from pathlib import Path

_TOO_EARLY, _EXPIRED = 9, 10  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED
_SAYS = {_TOO_EARLY: "it is not valid yet", _EXPIRED: "it has expired"}


def fault_of(cert: str, key: str, password: str = "") -> str:
    """Why clients would not accept the certificate in a PEM file today; "" if its dates are right.

    A client is made that trusts the very file, and shown the certificate, all in memory. Blocks. Raises
    ssl.SSLError for files that cannot be loaded.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key, password)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # no authority is needed above it
    client.load_verify_locations(cert)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = client.wrap_bio(to_client, to_server)
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    with contextlib.suppress(ssl.SSLWantReadError):
        theirs.do_handshake()
    with contextlib.suppress(ssl.SSLWantReadError):
        ours.do_handshake()
    try:
        theirs.do_handshake()
    except ssl.SSLCertVerificationError as error:
        # Another fault, such as of its purpose, may be none to its real clients.
        return _SAYS.get(error.verify_code, "")
    except ssl.SSLError:
        return ""
    return ""


def reason_of(error: ssl.SSLError, key: str = "") -> str:
    """OpenSSL's message, without the place in its source. `key`: the file of a key that was to be loaded."""
    reason = getattr(error, "reason", None)  # some errors do not have it
    if reason:
        return str(reason).replace("_", " ").lower()
    # The errors for a wrong password and for a truncated file have neither a reason nor a text.
    if key and b"ENCRYPTED" in Path(key).read_bytes():
        return "the key is encrypted, and its password is missing or wrong"
    return error.args[0] if isinstance(error.args[0], str) else "the PEM is not complete"
