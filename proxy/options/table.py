"""How options are declared: once, as fields of a dataclass.

A field says how the option is named on the command line and in zoo.cfg, how its text is read, its default and
its help. The parser and the values derive from this; the environment and TOML files use the same names.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, fields
from typing import Any, NamedTuple

from proxy.options import values

_SWITCH = ("on", "off")
_KEY = "option"
IS_SECRET = "is_secret"
"""The attribute of a parser's action whose values are secrets."""

Convert = Callable[[str], str | None]
"""Gives an option's text for a text of zoo.cfg; None for the option's default."""


class Option(NamedTuple):
    """One option."""

    name: str  # --with-dashes
    final: Callable[[Any], Any]  # makes the field's value of what the parser has found
    arguments: Mapping[str, Any]  # of `add_argument`
    aliases: tuple[str, ...]
    zoo: Mapping[str, Convert]  # the settings of zoo.cfg that mean the same
    secret: bool  # the value is a password, or a hash that stands for one
    secret_file: bool  # the value names a file that holds passwords or keys

    @property
    def dest(self) -> str:
        """Its name in the parser's namespace."""
        return self.name.removeprefix("--").replace("-", "_")


def option(
    help: str,
    *,
    name: str = "",
    aliases: tuple[str, ...] = (),
    final: Callable[[Any], Any] = lambda value: value,
    zoo: str | Mapping[str, Convert] = "",
    secret: bool = False,
    secret_file: bool = False,
    **arguments: Any,
) -> Any:
    """A field that is an option. `name`: if it is not the field's. `arguments`: others of `add_argument`.

    `zoo`: the name of the setting in zoo.cfg, or names with what converts each text.
    """
    settings = {zoo: str} if isinstance(zoo, str) and zoo else zoo or {}
    made = Option(name, final, {"help": help, **arguments}, aliases, settings, secret, secret_file)
    return field(metadata={_KEY: made}, repr=not secret)


def switch(
    help: str, default: str = "off", *, name: str = "", zoo: str | Mapping[str, Convert] = "", **more: Any
) -> Any:
    """A field that is True for `on` and False for `off`."""
    return option(
        help, name=name, zoo=zoo, choices=_SWITCH, default=default, final=lambda value: value == "on", **more
    )


def truth(help: str, default: str = "false", **more: Any) -> Any:
    """A field that is True for `true` and False for `false`, as settings of ZooKeeper's."""
    return option(help, type=values.truth, default=default, metavar="BOOL", **more)


def file_option(help: str, **more: Any) -> Any:
    """A field that is the name of a file that can be read."""
    return option(help, type=values.file, metavar="FILE", **more)


def group(options: type) -> Mapping[str, Any]:
    """The metadata of a field that has a dataclass of options of its own."""
    return {_KEY: options}


def options_of(table: type) -> Iterator[Option]:
    """The options of a dataclass, in the order of its fields."""
    for _, found in _declared(table):
        if isinstance(found, Option):
            yield found
        else:
            yield from options_of(found)


def add_options(add: Callable[..., Any], table: type) -> None:
    """Add the options of a dataclass to a parser; `add` is its `add_argument`."""
    for each in options_of(table):
        action = add(each.name, *each.aliases, **{"default": "", **each.arguments})
        setattr(action, IS_SECRET, each.secret)


def values_of(table: type, given: Any) -> dict[str, Any]:
    """The values of a dataclass's fields that are options, as the namespace `given` has them."""
    return {
        name: found.final(getattr(given, found.dest))
        if isinstance(found, Option)
        else found(**values_of(found, given))
        for name, found in _declared(table)
    }


def _declared(table: Any) -> Iterator[tuple[str, Any]]:
    """The fields that are options or groups of them."""
    for each in fields(table):
        found = each.metadata.get(_KEY)
        if isinstance(found, Option):
            yield each.name, found._replace(name=found.name or f"--{each.name.replace('_', '-')}")
        elif found is not None:
            yield each.name, found
