"""Steps are counted with their requests."""

import pytest

from examples.steps import Steps
from lab.client.requests import check, children, create, exists, get
from lab.client.session import Address, Session, ZooKeeperError
from lab.servers import ZketcdServer


async def test_a_step_counts_its_requests(zketcd_server: ZketcdServer) -> None:
    session = await Session.open(Address("127.0.0.1", zketcd_server.port))
    steps = Steps()
    with steps.step("some", session) as step:
        await step.call(create("/a"))
        (names, _), watch = await step.watched(children("/a"))
        await step.all(exists("/a"), exists("/b"))
        await step.multi(create("/a/b"), check("/a"))
        assert names == []
        assert await watch.wait(60.0)
    with steps.step("some", session) as step:
        step.counts = False
    with pytest.raises(ZooKeeperError), steps.step("some", session) as step:
        await step.all(get("/a"), get("/missing"), get("/a"))
    assert steps.done == {"some": 1}
    assert steps.facts() == {"some: done": 1, "some: requests for one": 5.0}
    steps.stop()
    for kind in ("some", "another", "session"):
        with steps.step(kind, session):
            pass
    assert (steps.done["some"], steps.timed["some"], steps.timed["another"]) == (2, 1, 0)
    assert {kind: sum(each.values()) for kind, each in steps.latencies().items()} == {"some": 1, "another": 1}
    assert steps.facts()["some: requests for one"] == 2.5
    await session.close()
