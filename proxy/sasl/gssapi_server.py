"""GSSAPI (RFC 4752), the server's side: Kerberos by python-gssapi, which is imported only if configured.

No security layer: ZooKeeper's packets stay as they are, over TLS or not.
"""

import importlib
import struct
from collections.abc import Callable
from typing import Any

from proxy.sasl.exchange import Failed, Malformed, Step
from proxy.support.libraries import how_to_add

_NO_LAYER = 1
# What the JDK's server says it would take, had it a layer: 64 KiB.
_BUFFER = 1 << 16
_SIZE_AND_LAYERS = struct.Struct(">I")
# Of a ticket with a large authorization, as Windows limits it (MaxTokenSize). Above it is no ticket.
_LONGEST = 1 << 16


class Missing(Exception):
    """python-gssapi is not installed, or the keytab does not do."""


class Credentials:
    """The server's own: a principal whose key is in a keytab."""

    def __init__(self, keytab: str, principal: str) -> None:
        """Raises Missing."""
        try:
            self._gssapi: Any = importlib.import_module("gssapi")
        except ImportError as error:
            raise Missing(
                f"--sasl-keytab needs python-gssapi, which cannot be loaded ({error}): {how_to_add('gssapi')}"
            ) from None
        try:
            name = self._gssapi.Name(principal, self._gssapi.NameType.kerberos_principal)
            self._own = self._gssapi.Credentials(
                name=name, usage="accept", store={"keytab": keytab}, mechs=[self._gssapi.MechType.kerberos]
            )
        except self._gssapi.exceptions.GSSError as error:
            raise Missing(f"--sasl-keytab {keytab}: no key of {principal}: {_why(error)}") from None

    @property
    def error(self) -> Any:
        """The base class of what the library raises."""
        return self._gssapi.exceptions.GSSError

    def context(self) -> Any:
        """A new context of a client's."""
        return self._gssapi.SecurityContext(creds=self._own, usage="accept")


class Gssapi:
    """One exchange. Its steps read the keytab and write Kerberos's replay cache, so they need a thread."""

    blocks = True

    def __init__(self, credentials: Credentials, name_of: Callable[[str], str]) -> None:
        """`name_of`: a principal's name in ACLs."""
        self._credentials = credentials
        self._name_of = name_of
        self._context = credentials.context()
        self._next: Callable[[bytes], Step] = self._accept

    def step(self, token: bytes) -> Step:
        """Take the ticket, then the choice of a security layer. Raises Failed."""
        current, self._next = self._next, self._over
        if len(token) > _LONGEST:
            raise Failed(f"a token of {len(token)} bytes")
        try:
            return current(token)
        except self._credentials.error as error:
            raise Failed(_why(error)) from error

    def _accept(self, token: bytes) -> Step:
        answer = self._context.step(token)
        if not self._context.complete:
            self._next = self._accept
            return Step(answer or b"")
        if answer is None:
            return self._offer(b"")
        self._next = self._offer
        return Step(answer)

    def _offer(self, token: bytes) -> Step:
        """The context stands: offer no security layer, as ZooKeeper."""
        if token:
            raise Failed("a token where none belongs", self._principal)
        self._next = self._choose
        return Step(self._context.wrap(_SIZE_AND_LAYERS.pack(_NO_LAYER << 24 | _BUFFER), False).message)

    def _choose(self, token: bytes) -> Step:
        chosen = self._context.unwrap(token).message
        if len(chosen) < _SIZE_AND_LAYERS.size:
            raise Malformed("the choice of a layer is cut short", self._principal)
        if not chosen[0] & _NO_LAYER:
            raise Failed("the client wants a security layer", self._principal)
        # What follows is for whom the client would like to act, which ZooKeeper ignores too.
        return Step(None, self._name_of(self._principal))

    def _over(self, token: bytes) -> Step:
        raise Failed("a token after the end of the exchange")

    @property
    def _principal(self) -> str:
        return str(self._context.initiator_name)


def _why(error: Exception) -> str:
    """The library's own words, in one line."""
    return " ".join(str(error).split())
