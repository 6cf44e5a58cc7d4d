"""What the tests of the recipes share."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.clients.jvm import Jvm

RECIPES = "org.apache.curator.framework.recipes"
SESSION_MS = 30_000
TIMEOUT_S = 60

# py4j hands Java's objects over without types.
Client = Any
Connect = Callable[..., Client]


def seconds(jvm: Jvm) -> Any:
    return jvm.find("java.util.concurrent.TimeUnit").SECONDS


def recipe(jvm: Jvm, name: str) -> Any:
    return jvm.find(f"{RECIPES}.{name}")


def read(client: Client, path: str) -> bytes:
    return bytes(client.getData().forPath(path))


def children(client: Client, path: str) -> list[str]:
    """The names as they are at this moment, also where another client wrote last."""
    client.sync().forPath(path)
    return sorted(client.getChildren().forPath(path))


@contextmanager
def started(*things: Any) -> Iterator[None]:
    """Starts recipes and closes them."""
    with ExitStack() as stack:
        for thing in things:
            thing.start()
            stack.callback(thing.close)
        yield


@contextmanager
def refused(error: str) -> Iterator[None]:
    """The body's call of Java ends with an exception of this class's name."""
    with pytest.raises(Py4JJavaError) as raised:
        yield
    assert raised.value.java_exception.getClass().getSimpleName() == error
