"""Gets the token that stands for etcd's user, and another one when etcd has forgotten it.

A password in a file is read each time. After a change of it, etcd forgets the user's tokens. A process that
was authenticated once does not give up then: file and etcd are not changed at one moment.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.failures import STALE_TOKEN
from proxy.etcd.model import EtcdError, EtcdNoToken, EtcdRefused, EtcdUnknown, RefusalKind
from proxy.etcd.transport import Metadata
from proxy.options.etcd import read_password
from proxy.support.environment import Clock
from proxy.support.tasks import Tasks
from proxy.support.throttled_log import ThrottledLog

_LOG = logging.getLogger(__name__)

_LOOK = 0.1  # seconds between two looks at a file whose password etcd refuses
_ASK_AGAIN = 1.0  # seconds until etcd gets the same password again: it hashes each one, which takes 0.1 s

Ask = Callable[[bytes], Awaitable[str]]
"""Sends an AuthenticateRequest; the token, "" for an etcd without authentication. Raises EtcdError."""


class Credentials:
    """A user and its token; or no user, for an etcd without authentication."""

    def __init__(self, user: str) -> None:
        """`user` "": none."""
        self.user = user
        self.token = ""
        #: etcd has said that it has no authentication, and has refused no request without a token since.
        self.needless = False
        #: The metadata of requests.
        self.metadata: Metadata = ()

    @property
    def incomplete(self) -> bool:
        """Whether requests need a token that is not there."""
        return bool(self.user) and not self.token and not self.needless

    def use(self, token: str) -> None:
        """Make requests with this token; "": with none, and get one."""
        self.token = token
        self.needless = False
        self.metadata = (("token", token),) if token else ()

    def request(self, password: str) -> bytes:
        """The AuthenticateRequest that asks for a token."""
        return pb.AuthenticateRequest(name=self.user, password=password).SerializeToString()

    def expired(self, answer: object, token: str) -> bool:
        """Whether this answer to a request with this token says that another token is needed.

        A request without one counts as made by the user that the certificate of the connection names.
        """
        if not self.user or not isinstance(answer, EtcdRefused):
            return False
        return answer.message in STALE_TOKEN or (not token and answer.kind is RefusalKind.PERMISSION)


class Authenticator:
    """Keeps the token of one client's credentials."""

    def __init__(self, user: str, password: str, password_file: str, clock: Clock) -> None:
        """`user` "": etcd gets no token. `password_file`: where the password is, if it is not given."""
        self.credentials = Credentials(user)
        self._password = password
        self._file = password_file
        self._whose = f"the password of user {user}" + (f" in {password_file}" if password_file else "")
        self._clock = clock
        self._throttled_log = ThrottledLog(_LOG, clock)
        self._tasks = Tasks()
        self._renewal: asyncio.Task[None] | None = None
        self._served = False  # etcd gave a token once, or needed none
        self._accepted = ""  # the last password for which etcd gave a token
        self._refused = ""  # the last one for which it gave none since
        self._ask_at = 0.0  # when it may be asked again for that
        self._obstacle = ""  # why there is no token

    async def renew(self, stale: str, timeout: float, ask: Ask) -> None:
        """Get a token in place of `stale`.

        Raises EtcdRefused if etcd refuses the first password, EtcdUnknown if there is no token in `timeout`
        seconds, and what `ask` raises. All calls wait for the same request, which continues after their
        timeouts: an etcd that needs seconds for a hash would never finish one otherwise.
        """
        if self.credentials.token not in ("", stale):
            return  # another request has got a new one in the meantime
        if self._renewal is None:
            self.credentials.use("")
            self._renewal = self._tasks.start(self._renew(ask), "authenticate", reported=(EtcdError,))
        renewal = self._renewal
        await asyncio.wait((renewal,), timeout=timeout)
        if not renewal.done() or renewal.cancelled():
            if self._obstacle:
                raise EtcdUnknown(self._obstacle)
            raise EtcdNoToken(f"etcd gave no token in {timeout:.1f} s")
        renewal.result()

    async def close(self) -> None:
        """Get no more tokens."""
        await self._tasks.close()

    async def _renew(self, ask: Ask) -> None:
        credentials = self.credentials
        try:
            credentials.use(await self._token(ask))
            credentials.needless = not credentials.token
        finally:
            self._renewal = None

    async def _token(self, ask: Ask) -> str:
        """Try until there is one."""
        while True:
            password = await self._current()
            if password and (password != self._refused or self._clock.monotonic() >= self._ask_at):
                try:
                    token = await ask(self.credentials.request(password))
                except EtcdRefused as refusal:
                    if not self._served:
                        raise
                    self._refused, self._ask_at = password, self._clock.monotonic() + _ASK_AGAIN
                    self._obstacle = f"etcd refuses {self._whose} ({refusal})"
                else:
                    self._accept(password if token else "")
                    return token
            self._throttled_log.warn("%s: trying again", self._obstacle)
            await asyncio.sleep(_LOOK)

    async def _current(self) -> str:
        """The password as of now; "" if there is none."""
        if not self._file:
            return self._password
        try:
            return await asyncio.to_thread(read_password, self._file)
        except ValueError as error:
            self._obstacle = str(error)
            return ""

    def _accept(self, password: str) -> None:
        """etcd has accepted this one; "": it has no authentication."""
        if password and (self._obstacle or password != (self._accepted or password)):
            _LOG.info("etcd accepts %s", self._whose)
        self._served = True
        self._accepted = password or self._accepted
        if self._obstacle:
            self._throttled_log = ThrottledLog(_LOG, self._clock)  # the next obstacle is news
        self._refused = self._obstacle = ""
