"""What is sent again, and how often."""

import pytest

from proxy.etcd import repeating as module
from proxy.etcd.model import EtcdUnknown
from proxy.etcd.repeating import until_known


async def test_requests_are_repeated_while_their_outcome_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY", 0)
    monkeypatch.setattr(module, "_TRIES", 2)
    tries = 0

    async def request(answer: int) -> int:
        nonlocal tries
        tries += 1
        if tries < answer:
            raise EtcdUnknown("later")
        return tries

    assert await until_known(request, 3) == 3
    tries = -10
    with pytest.raises(EtcdUnknown):
        await until_known(request, answer=3)
    assert tries == -7
