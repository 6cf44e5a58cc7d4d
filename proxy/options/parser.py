"""The parser of programs whose options can also stand in the environment and in a TOML file.

Errors name the option, and the variable or the line of the file that it comes from, but no secret.
"""

import argparse
import re
from collections.abc import Collection, Iterable
from io import StringIO
from typing import Any, TextIO

import configargparse

from proxy.options.file import TABLE, TOO_DEEP, VARIABLES, parsed, table_of
from proxy.options.table import IS_SECRET
from proxy.support.files import bounded, check_no_pipe
from proxy.support.usage import Parser, nearest

# Variables of programs of ours besides the server.
_OTHERS = {"AUTH", "JSON", "PATIENCE", "SERVER", "SERVER_CA", "SERVER_PASSWORD", "SERVER_USER", "TIMEOUT"}
# What Kubernetes sets in each container for a service named zketcd (EnableServiceLinks).
_OF_KUBERNETES = re.compile(r"(.*_)?(SERVICE_(HOST|PORT)(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")


class OptionParser(Parser, configargparse.ArgumentParser):  # type: ignore[misc]  # it has no types
    """configargparse's parser for `ZKETCD_...` and the file of --config; wrong usage is one line."""

    #: Options of the command line alone: those of the server have the same names and mean something else.
    own: Collection[str] = ()

    def __init__(self, **options: Any) -> None:
        """`options` are those of configargparse.ArgumentParser."""
        ours: dict[str, Any] = {
            "auto_env_var_prefix": VARIABLES,
            "config_file_open_func": _opened,
            "config_file_parser_class": _TomlFile,
        }
        super().__init__(**ours | options)

    def secrets_on_command_line(self) -> list[str]:
        """The options with secrets that the command line has, after parsing."""
        _, words = self._source_to_settings.get("command_line", {}).get("", (None, []))
        given = {word.partition("=")[0] for word in words}
        return [
            action.option_strings[0]
            for action in self._actions
            if getattr(action, IS_SECRET, False) and not given.isdisjoint(action.option_strings)
        ]

    def place_of_unknown(self, name: str) -> str:
        """Where an unknown option is, if not on the command line."""
        return self._config_file_parser.place(name.removeprefix("--")) or ""

    def get_possible_config_keys(self, action: Any) -> list[str]:
        """As configargparse's, but there are none of the parser's own options."""
        found: list[str] = super().get_possible_config_keys(action)
        return [] if action.dest in self.own else found

    def convert_item_to_command_line_arg(self, action: Any, key: str, value: Any) -> list[str]:
        """As configargparse's, but a list where one value is expected is not shown."""
        if isinstance(value, list) and action is not None and not isinstance(action, argparse._AppendAction):
            place = self._config_file_parser.place(key)
            self.error(f"argument {action.option_strings[0]}: one value is expected, not a list{place}")
        if action is not None and key in self._config_file_parser.tables:
            place = self._config_file_parser.place(key)
            self.error(f"argument {action.option_strings[0]}: a text is expected, not a table{place}")
        found: list[str] = super().convert_item_to_command_line_arg(action, key, value)
        return found

    def _get_value(self, action: Any, text: str) -> Any:
        try:
            return super()._get_value(action, text)
        except argparse.ArgumentError as error:
            raise argparse.ArgumentError(action, f"{error.message}{self._place(action)}") from error

    def _check_value(self, action: Any, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            raise argparse.ArgumentError(action, f"{error.message}{self._place(action)}") from error

    def _place(self, action: Any) -> str:
        """Where an option's value is from, if not from the command line."""
        for source, settings in self._source_to_settings.items():
            for key, (found, _) in settings.items():
                if found is action and source == "environment_variables":
                    return f" ({key})"
                if found is action and source.startswith("config_file"):
                    return str(self._config_file_parser.place(key))
        return ""


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows the default of each option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, "", []) or action.default is False:
            return action.help
        return super()._get_help_string(action)


class _TomlFile(configargparse.TomlConfigParser):  # type: ignore[misc]  # it has no types
    """Knows on which line of the file a key is, and names the file that is wrong."""

    def __init__(self) -> None:
        super().__init__([TABLE])
        self._name = self._text = ""
        #: The options whose value is a table, or a list that has one.
        self.tables: set[str] = set()

    def parse(self, stream: Any) -> Any:
        self._name = stream.name
        try:
            self._text = bounded(stream).removeprefix("\ufeff")
            found = super().parse(StringIO(self._text))
            options = table_of(parsed(self._text))
            self.tables = {key for key, value in options.items() if _has_table(value)}
            return found
        except RecursionError:
            message = f"{self._name}: Couldn't parse TOML file: {TOO_DEEP}"
            raise configargparse.ConfigFileParserException(message) from None
        except UnicodeDecodeError as error:
            message = f"{self._name}: Couldn't parse TOML file: {error}"
            raise configargparse.ConfigFileParserException(message) from error
        except (configargparse.ConfigFileParserException, ValueError) as error:
            raise configargparse.ConfigFileParserException(f"{self._name}: {error}") from error

    def place(self, key: str) -> str:
        """The file and the line of a key; "" if the file does not have it."""
        line = line_of(self._text, key)
        return f" ({self._name}, line {line})" if line else ""


def _opened(file: str) -> TextIO:
    check_no_pipe(file)
    return open(file, encoding="utf-8")


def _has_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_has_table, value)))


def line_of(text: str, key: str) -> int:
    """The number of the last line that sets a key, of TOML or of a file of properties; 0 for none."""
    pattern = re.compile(rf"""\s*(?:\[{TABLE}\.)?["']?{re.escape(key)}(?:["']?\s*[=:.\s\]]|$)""", re.ASCII)
    return max((number for number, line in enumerate(text.split("\n"), 1) if pattern.match(line)), default=0)


def unknown_variables(environment: Iterable[str], options: Iterable[str]) -> tuple[str, ...]:
    """Variables that look like options and are none. Raises ValueError for one that is probably misspelt."""
    known = _OTHERS.union(option.upper() for option in options)
    unknown = []
    for variable in sorted(environment):
        name = variable.removeprefix(VARIABLES)
        if name == variable or name in known or _OF_KUBERNETES.fullmatch(name):
            continue
        question = nearest(name, known).replace("mean ", f"mean {VARIABLES}")
        if question:
            raise ValueError(f"unknown environment variable {variable}{question}")
        unknown.append(variable)
    return tuple(unknown)
