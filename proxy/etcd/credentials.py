"""The user that requests are made as, and the token that stands for it. Pure."""

from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.failures import STALE_TOKEN
from proxy.etcd.model import EtcdRefused
from proxy.etcd.transport import Metadata


class Credentials:
    """A user and its token; or no user, for an etcd without authentication."""

    def __init__(self, user: str) -> None:
        """`user` "": none."""
        self.user = user
        self.token = ""
        #: The metadata of requests.
        self.metadata: Metadata = ()

    @property
    def incomplete(self) -> bool:
        """Whether requests need a token that is not there."""
        return bool(self.user) and not self.token

    def use(self, token: str) -> None:
        """Make requests with this token; "": with none."""
        self.token = token
        self.metadata = (("token", token),) if token else ()

    def request(self, password: str) -> bytes:
        """The AuthenticateRequest that asks for a token."""
        return pb.AuthenticateRequest(name=self.user, password=password).SerializeToString()

    def expired(self, answer: object) -> bool:
        """Whether this answer to a request says that its token is not valid any more."""
        return bool(self.user) and isinstance(answer, EtcdRefused) and answer.message in STALE_TOKEN
