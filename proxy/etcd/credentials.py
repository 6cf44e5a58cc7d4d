"""The user that requests are made as, and the token that stands for it. Pure."""

from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.failures import STALE_TOKEN
from proxy.etcd.model import EtcdRefused, RefusalKind
from proxy.etcd.transport import Metadata


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
