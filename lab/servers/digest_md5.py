"""DIGEST-MD5's client, written from RFC 2831 alone, for tests: each part of its answer can be changed."""

import hashlib
import re
from collections.abc import Mapping

REALM = "zk-sasl-md5"
_CNONCE = "OA6MHXh6VqTrRk"


def respond(
    challenge: bytes, name: str, password: str, changes: Mapping[str, str | None] | None = None
) -> bytes:
    """The answer to a challenge. `changes`: other directives than a client's own; None leaves one out."""
    nonce = _nonce(challenge)
    said: dict[str, str | None] = {
        "charset": "utf-8",
        "username": name,
        "realm": REALM,
        "nonce": nonce,
        "nc": "00000001",
        "cnonce": _CNONCE,
        "digest-uri": f"zookeeper/{REALM}",
        "maxbuf": "65536",
        "qop": "auth",
        **(changes or {}),
    }
    uri = said["digest-uri"] or ""
    secret = _md5(b":".join(map(_latin, (name, said["realm"] or "", password))))
    session = [secret, nonce.encode(), (said["cnonce"] or "").encode()]
    if said.get("authzid") is not None:
        session.append(str(said["authzid"]).encode())
    proof = ":".join(
        (
            _md5(b":".join(session)).hex(),
            nonce,
            "00000001",
            said["cnonce"] or "",
            said["qop"] or "auth",
            _md5(f"AUTHENTICATE:{uri}".encode()).hex(),
        )
    )
    said.setdefault("response", _md5(proof.encode()).hex())
    bare = {"nc", "qop", "maxbuf", "charset", "response"}
    return ",".join(
        f"{key}={value}" if key in bare else f'{key}="{_quoted(value)}"'
        for key, value in said.items()
        if value is not None
    ).encode()


def _nonce(challenge: bytes) -> str:
    found = re.search(rb'nonce="([^"]*)"', challenge)
    assert found is not None, challenge
    return found[1].decode()


def _quoted(text: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", text)


def _latin(text: str) -> bytes:
    return text.encode("latin-1" if all(ord(letter) < 256 for letter in text) else "utf-8")


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data).digest()
