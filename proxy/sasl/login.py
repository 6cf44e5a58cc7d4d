"""What a server authenticates clients with: ZooKeeper's Login. It begins the exchanges of all connections."""

import base64
from concurrent.futures import ThreadPoolExecutor

from proxy.sasl.digest_md5 import DigestMd5
from proxy.sasl.exchange import Exchange, Failed
from proxy.sasl.gssapi_server import Credentials, Gssapi
from proxy.sasl.options import SaslSettings
from proxy.support.environment import HOST, Randomness

_NONCE_BYTES = 30
# Threads for Kerberos: a step takes well below a millisecond of CPU, and waits for the replay cache's disk.
_THREADS = 2


class Login:
    """The users and keys of one server."""

    def __init__(self, settings: SaslSettings, randomness: Randomness = HOST.randomness) -> None:
        """Raises proxy.sasl.gssapi_server.Missing."""
        self._randomness = randomness
        self._users = settings.users
        self._name_of = settings.naming.name_of
        self._credentials = Credentials(settings.keytab, settings.principal) if settings.keytab else None
        #: For the steps that block; None if none does.
        self.threads = ThreadPoolExecutor(_THREADS, "sasl") if settings.keytab else None
        #: The names of the users that have all permissions.
        self.super_users = settings.super_users
        #: Whether a client that fails is served nevertheless, without an identity.
        self.allows_failed = settings.allow_failed
        #: Whether no client is served without SASL.
        self.is_demanded = settings.is_demanded

    def begin(self, token: bytes) -> Exchange:
        """An exchange for a connection, whose first token shows the mechanism: DIGEST-MD5's is empty.

        Raises Failed.
        """
        if self._credentials is not None and (token or not self._users):
            return Gssapi(self._credentials, self._name_of)
        if not self._users:
            raise Failed("no mechanism is configured")
        nonce = base64.b64encode(self._randomness.token_bytes(_NONCE_BYTES)).decode()
        return DigestMd5(self._users, nonce, self._name_of)

    def close(self) -> None:
        """Take no more clients."""
        if self.threads is not None:
            self.threads.shutdown(wait=False, cancel_futures=True)
