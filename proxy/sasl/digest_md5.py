"""DIGEST-MD5 (RFC 2831), the server's side, as ZooKeeper's has it: qop auth, UTF-8, one realm. Pure.

The rules beyond the RFC are those of the JDK's DigestMD5Server, which is ZooKeeper's: it does not read `nc`,
takes an authzid into the hash and otherwise ignores it, and answers an initial response as an empty one.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping

from proxy.sasl.exchange import Failed, Malformed, Step

#: What ZooKeeper's servers and clients agree upon in place of a host's name (ZooKeeperSaslServer).
REALM = "zk-sasl-md5"
_SERVICE = "zookeeper"
# DigestMD5Base.MAX_RESPONSE_LENGTH.
_LONGEST = 4096
# At most once each; others are ignored.
_KNOWN = frozenset(
    (
        *(b"username", b"realm", b"nonce", b"cnonce", b"qop", b"digest-uri"),
        *(b"response", b"maxbuf", b"charset", b"authzid"),
    )
)
_SEPARATORS = re.compile(rb"[ \t\r\n,]*+")
_DIRECTIVE = re.compile(
    rb"([^ \t\r\n,=]++)[ \t\r\n]*+=[ \t\r\n]*+"
    rb'(?:"((?:[^"\\]|\\.)*+)"|([^" \t\r\n,][^ \t\r\n,]*+)?+)(?=[ \t\r\n,]|\Z)',
    re.DOTALL,
)
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


def secret(name: str, password: str, realm: str = REALM) -> bytes:
    """What is kept of a password: the 16 bytes of H(name:realm:password), which RFC 2831 starts from."""
    return _md5(b":".join(map(_latin, (name, realm, password))))


class DigestMd5:
    """One exchange."""

    blocks = False

    def __init__(
        self,
        secrets: Mapping[str, bytes],
        nonce: str,
        name_of: Callable[[str], str],
        realm: str = REALM,
        service: str = _SERVICE,
    ) -> None:
        """`secrets`: those of the users. `nonce`: never used before. `name_of`: a user's name in ACLs."""
        self._realm = realm
        self._uri = f"{service}/{realm}".lower()
        self._secrets = secrets
        self._nonce = nonce.encode()
        self._name_of = name_of
        self._steps = 0

    def step(self, token: bytes) -> Step:
        """The challenge for the first token, the judgement of the second. Raises Failed."""
        self._steps += 1
        if len(token) > _LONGEST:
            self._steps = 2
            raise Failed(f"a token of {len(token)} bytes")
        if self._steps == 1:
            challenge = (
                f'realm="{self._realm}",nonce="{self._nonce.decode()}",charset=utf-8,algorithm=md5-sess'
            )
            return Step(challenge.encode())
        if self._steps > 2:
            raise Failed("a token after the end of the exchange")
        return self._judge(token)

    def _judge(self, token: bytes) -> Step:
        found = directives(token)
        name = found.get(b"username", b"").decode("utf-8", "replace")
        if not re.fullmatch(rb"[+-]?\d{1,9}", found.get(b"maxbuf", b"0")):
            raise Malformed(f"maxbuf is {found[b'maxbuf']!r}", name)
        for key, expected in (
            (b"charset", (b"utf-8", None)),
            (b"realm", (self._realm.encode(),)),
            (b"nonce", (self._nonce,)),
            (b"qop", (b"auth", None)),
        ):
            if found.get(key) not in expected:
                raise Failed(f"{key.decode()} is {found.get(key)!r}", name)
        for key in (b"username", b"cnonce", b"response"):
            if key not in found:
                raise Failed(f"no {key.decode()}", name)
        uri = found.get(b"digest-uri", b"")
        if uri.decode("utf-8", "replace").lower() != self._uri:
            raise Failed(f"digest-uri is {uri!r}", name)
        if not name:
            raise Malformed("the user has no name")
        # Of an unknown user as much is computed as of a known one, so that the time tells nothing.
        known = self._secrets.get(name)
        session = b":".join(
            (
                known if known is not None else bytes(16),
                self._nonce,
                found[b"cnonce"],
                *([found[b"authzid"]] if b"authzid" in found else []),
            )
        )
        expected_response = self._response(session, found[b"cnonce"], b"AUTHENTICATE:" + uri)
        is_right = hmac.compare_digest(expected_response, found[b"response"])
        if known is None:
            raise Failed("there is no such user", name)
        if not is_right:
            raise Failed("the password is wrong", name)
        proof = self._response(session, found[b"cnonce"], b":" + uri)
        return Step(b"rspauth=" + proof, self._name_of(name))

    def _response(self, session: bytes, cnonce: bytes, purpose: bytes) -> bytes:
        """The response-value of RFC 2831, section 2.1.2.1."""
        return hexed(b":".join((hexed(session), self._nonce, b"00000001", cnonce, b"auth", hexed(purpose))))


def directives(token: bytes) -> dict[bytes, bytes]:
    """The known directives of a client's response, with their values unquoted. Raises Failed."""
    found: dict[bytes, bytes] = {}
    position = 0
    while True:
        separators = _SEPARATORS.match(token, position)
        assert separators is not None
        position = separators.end()
        if position == len(token):
            return found
        directive = _DIRECTIVE.match(token, position)
        if directive is None:
            raise Failed(f"its response is malformed at byte {position}")
        position = directive.end()
        key = directive[1].lower()
        if key not in _KNOWN:
            continue
        if key in found:
            raise Failed(f"{key.decode()} is given twice")
        quoted = directive[2]
        found[key] = _ESCAPED.sub(rb"\1", quoted) if quoted is not None else directive[3] or b""


def _latin(text: str) -> bytes:
    """RFC 2831: ISO 8859-1 where that has all characters."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def hexed(data: bytes) -> bytes:
    """HEX(H(data))."""
    return _md5(data).hex().encode()
