"""DIGEST-MD5 (RFC 2831), the client's side, as ZooKeeper's clients have it. Pure."""

import re

from proxy.sasl.digest_md5 import REALM, hexed, secret

_URI = f"zookeeper/{REALM}".encode()


def response(challenge: bytes, name: str, password: str, cnonce: bytes) -> bytes:
    """The answer to a server's challenge. `cnonce`: never used before. Raises ValueError."""
    found = re.search(rb'nonce="([^"]*)"', challenge)
    if found is None:
        raise ValueError(f"the challenge {challenge[:80]!r} has no nonce")
    nonce = found[1]
    session = hexed(b":".join((secret(name, password), nonce, cnonce)))
    proof = hexed(b":".join((session, nonce, b"00000001", cnonce, b"auth", hexed(b"AUTHENTICATE:" + _URI))))
    quoted = re.sub(r'(["\\])', r"\\\1", name).encode()
    return (
        b'charset=utf-8,username="%b",realm="%b",nonce="%b",nc=00000001,cnonce="%b",digest-uri="%b",'
        b"maxbuf=65536,response=%b,qop=auth" % (quoted, REALM.encode(), nonce, cnonce, _URI, proof)
    )
