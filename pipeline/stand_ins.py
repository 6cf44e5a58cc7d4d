"""Stand-ins for libraries that are not installed, so that the help of a command can be printed without them.

They are for a process that prints help and ends: nothing of them works.
"""

import sys
from collections.abc import Collection, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Anything:
    """A name of such a library, as far as modules of ours use it while they are imported."""

    def __getattr__(self, name: str) -> "_Anything":
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()

    def __call__(self, *_: object, **__: object) -> "_Anything":
        return _Anything()

    def __getitem__(self, _: object) -> "_Anything":
        return _Anything()

    def __or__(self, _: object) -> "_Anything":
        return self

    def __ror__(self, _: object) -> "_Anything":
        return self

    def __iter__(self) -> Iterator["_Anything"]:
        return iter(())

    def __format__(self, _: str) -> str:
        return "1"

    def __mro_entries__(self, _: tuple[type, ...]) -> tuple[type, ...]:
        return ()


class _StandIn(ModuleType):
    """A package that has any name."""

    __path__: list[str] = []  # noqa: RUF012 - what makes it a package

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()


class _Finder(MetaPathFinder, Loader):
    """Finds the packages that are missing."""

    def __init__(self, packages: Collection[str]) -> None:
        self._packages = packages

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As MetaPathFinder."""
        if fullname.partition(".")[0] not in self._packages:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """As Loader."""
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """As Loader: there is nothing to run."""


def install(packages: Collection[str]) -> None:
    """Stand in for those of these packages that are not installed."""
    sys.meta_path.append(_Finder(packages))
