"""An etcd in memory that is out of reach for a while."""

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.model import EtcdUnknown


class Failing(FakeEtcdClient):
    """Out of reach for `length` requests in a row, from the request `at` on; 0: never."""

    def __init__(self, store: FakeEtcd, at: int, length: int = 30) -> None:
        super().__init__(store)
        self.requests = 0
        self._outage = range(at, at + length) if at else range(0)

    async def _contact(self) -> None:
        self.requests += 1
        if self.requests in self._outage:
            raise EtcdUnknown("no member answers")
        await super()._contact()
