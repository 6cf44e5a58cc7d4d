"""Who may run the admin port's commands that change something."""

import logging
from http import HTTPStatus
from typing import NamedTuple

from codec.constants import Perms
from proxy.admin.subject import Subject
from proxy.state.auth.ip import IP
from proxy.state.auth.scheme import Identities, Remote
from proxy.state.auth.schemes import AuthSchemes
from proxy.state.rights import permits, rights_of
from proxy.support.throttled_log import ThrottledLog
from schema.paths import ROOT

log = logging.getLogger(__name__)

_SUPER = "super"
_WITHOUT_USERS = ("world", IP.name)  # schemes whose ACLs name no user


class Refused(NamedTuple):
    """The answer to a client that may not."""

    status: HTTPStatus
    why: str


class Guard:
    """Judges the header Authorization of a request."""

    def __init__(self, subject: Subject, auth: AuthSchemes) -> None:
        self._subject = subject
        self._auth = auth
        self._throttled_log = ThrottledLog(log, subject.clock)

    def judge(self, authorization: str | None, address: str, *, named: bool = False) -> Identities | Refused:
        """The identities of a client with all permissions on the root node, or why it is refused.

        As Commands.handleAuthentication and handleAuthorization decide it. There each client that names a
        user has what the root node permits to all. `named`: only the super user and users whom its ACL names
        count, for what no client of ZooKeeper can do.
        """
        if authorization is None:
            return Refused(HTTPStatus.UNAUTHORIZED, "Auth info is missing for the command")
        judged = self._judged(authorization, address, named=named)
        if isinstance(judged, Refused):
            self._subject.counters.auth_failed += 1
            self._throttled_log.warn("the admin port refuses a command of %s: %s", address, judged.why)
        return judged

    def _judged(self, authorization: str, address: str, *, named: bool) -> Identities | Refused:
        scheme, _, credentials = authorization.rstrip(" ").partition(" ")
        identities: Identities = ()
        if " " not in credentials:
            identities = self._auth.authenticate(
                scheme, credentials.encode(errors="surrogateescape") or None, Remote(address)
            )
        if not identities:
            return Refused(HTTPStatus.UNAUTHORIZED, "Not authenticated")
        acl = self._subject.machine.tree.nodes[ROOT].acl
        if named and not any(identity.scheme == _SUPER for identity in identities):
            acl = tuple([each for each in acl if each.scheme not in _WITHOUT_USERS])
            if not acl:  # which would permit everything
                return Refused(HTTPStatus.FORBIDDEN, "Not authorized: this needs the super user")
        rights = rights_of(acl)
        if not all(permits(rights, permission, identities) for permission in Perms):
            return Refused(HTTPStatus.FORBIDDEN, "Not authorized")
        return identities
