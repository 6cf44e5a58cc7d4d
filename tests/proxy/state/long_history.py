"""Long random histories without hypothesis: the same in every process, and in every version of Python."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from codec.jute import Acl
from lab.oracle.requests import (
    Create,
    CreateContainer,
    CreateTtl,
    Delete,
    Multi,
    RemoveRecursive,
    SetAcl,
    SetData,
)
from proxy.state.machine import CHECKPOINT_EVERY
from tests.proxy.state.world import (
    Ask,
    Attach,
    CarryOver,
    Expire,
    Open,
    Said,
    World,
    all_pages,
    reloaded,
    request_of,
    sampled,
)

HOLDERS = ("p1", "p2", "p3")
SESSIONS = (1, 2, 3)


def _random_said(random: Random) -> Said:
    """One of the things that may happen, without hypothesis: the same in every process."""
    session = random.choice(SESSIONS)
    kind = random.random()
    if kind < 0.04:
        return Open(session)
    if kind < 0.08:
        return Attach(session)
    if kind < 0.1:
        return Expire(session)
    if kind < 0.12:
        return CarryOver(random.choice(HOLDERS))
    return Ask(session, _random_asked(random))


def _random_asked(random: Random, *, within: bool = False) -> Any:
    path = "/" + "/".join(random.choice("abc") for _ in range(random.randint(1, 3)))
    choices: list[Callable[[], Any]] = [
        lambda: Create(path, random.randbytes(3), flags=random.choice((0, 0, 0, 1, 2, 3))),
        lambda: Create(path, random.randbytes(3), flags=random.choice((0, 0, 0, 1, 2, 3))),
        lambda: CreateTtl(path, b"m", 5) if random.choice((None, 5)) else CreateContainer(path, b"m"),
        lambda: SetData(path, random.randbytes(2)),
        lambda: Delete(path),
        lambda: RemoveRecursive(path, 20),
    ]
    if not within:
        choices.append(lambda: SetAcl(path, (Acl(random.choice((31, 29)), "world", "anyone"),)))
        choices.append(
            lambda: Multi(tuple(_random_asked(random, within=True) for _ in range(random.randint(1, 4))))
        )
    return random.choice(choices)()


def long_history(seed: int) -> str:
    """What is left of a long random history, and all events in their order: a digest of its own."""
    random = Random(seed)
    world = World(sessions=())
    world.enter(*(request_of(Open(session)) for session in SESSIONS), holder="p1")
    told = []
    for _ in range(3 * CHECKPOINT_EVERY):
        holder = random.choice(HOLDERS)
        asked = [_random_said(random) for _ in range(random.randint(0, 12))]
        world.enter(*(request_of(single) for single in asked), holder=holder, clock=random.randrange(10**6))
        told.append([outcome.err for outcome in world.outcomes])
        if random.random() < 0.1:
            world = World(sessions=(), machine=reloaded(world.machine))
    node_pages, session_pages, state, digest = all_pages(world.machine)
    return json.dumps(
        [[page.hex() for page in (*node_pages, *session_pages, state)], digest, told, sampled(world.events)]
    )
