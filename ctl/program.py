"""What every command here is made of: a program, and the tree that it is about.

A row of `cli.commands` names the module here whose PROGRAMS has the command.
"""

import asyncio
import time
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from cli.commands import COMMANDS
from cli.output import CommandFailed, Output
from cli.tree import loaded
from proxy.etcd.access import Access
from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdUnknown, Get
from proxy.log.follow.catch_up import Loaded
from proxy.log.record import living_of, look
from proxy.state.machine import Machine
from proxy.support.memory import uncollected
from schema.keys import Keyspace
from schema.record import Home

T = TypeVar("T")

#: The commands that also show the tree as it was: as of a moment of an archive, or by `replay`.
PAST = ("ls", "get", "stat", "sessions")

_RETRY = 0.2  # seconds between two tries to reach etcd


class Tree:
    """The tree in etcd that a command line names, as it is now. The methods block."""

    def __init__(self, given: Any, parser: Any, access: Access) -> None:
        """`parser` has read the command line; its `error` ends the process."""
        self.given = given
        self.parser = parser
        self.access = access
        self.keys = Keyspace(given.prefix)

    def ask(self, question: Callable[[Etcd, Keyspace], Awaitable[T]]) -> T:
        """What a question gives, once etcd answers. Raises CommandFailed, TreeNotServable, EtcdError."""
        return asyncio.run(self._ask(question))

    async def _ask(self, question: Callable[[Etcd, Keyspace], Awaitable[T]]) -> T:
        etcd = self.access.client()
        try:
            await self._answers(etcd)
            return await question(etcd, self.keys)
        finally:
            await etcd.close()

    async def _answers(self, etcd: Etcd) -> None:
        """Wait until etcd answers a linearizable read. Raises CommandFailed, EtcdRefused."""
        timeout = self.given.timeout
        deadline = time.monotonic() + timeout
        while True:
            began = time.monotonic()
            try:
                await etcd.range(Get(self.keys.tree, keys_only=True), max(_RETRY, deadline - began))
            except EtcdUnknown as error:
                if time.monotonic() + _RETRY > deadline:
                    raise CommandFailed(f"etcd has not answered for {timeout:g} s: {error}") from error
                await asyncio.sleep(_RETRY)
            else:
                return

    def loaded(self, upto: int = 0) -> Loaded:
        """The state, and where it stands. `upto`: as of this position. Raises as `ask`."""
        with uncollected():
            return self.ask(lambda etcd, keys: loaded(etcd, keys, self.given.timeout, upto))

    def machine(self) -> Machine:
        """The state."""
        return self.loaded().machine

    def homes(self) -> Mapping[str, Home]:
        """Where the living proxies run."""

        async def find(etcd: Etcd, keys: Keyspace) -> Mapping[str, Home]:
            return living_of(await look(etcd, keys), keys).homes

        return self.ask(find)


class Past(Tree):
    """The tree as it was once: today's proxies know nothing of it."""

    def __init__(self, tree: Tree, load: Callable[[], Machine]) -> None:
        super().__init__(tree.given, tree.parser, tree.access)
        self._load = load

    def machine(self) -> Machine:
        """The state then."""
        return self._load()

    def homes(self) -> Mapping[str, Home]:
        """No proxy."""
        return {}


class Program(NamedTuple):
    """What a command does."""

    #: Its result, from the tree and the command line; None if it has printed it. Blocks.
    run: Callable[[Tree, Any], Output | None]
    arguments: Callable[[ArgumentParser], None] = lambda _parser: None


def program_of(command: str) -> Program:
    """The program of a command. Imports its module."""
    programs: Mapping[str, Program] = import_module(COMMANDS[command].part).PROGRAMS
    return programs[command]
