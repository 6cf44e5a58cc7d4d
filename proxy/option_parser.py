"""The parser of programs whose options can also stand in the environment and in a TOML file."""

import argparse
from typing import Any

import configargparse

from proxy.support.usage import Parser

TABLE = "zketcd"
"""The table of the file that has the options."""


class OptionParser(Parser, configargparse.ArgumentParser):  # type: ignore[misc]  # it has no types
    """configargparse's parser for `ZKETCD_...` and the file of --config; wrong usage is one line."""

    def __init__(self, **options: Any) -> None:
        """`options` are those of configargparse.ArgumentParser."""
        ours: dict[str, Any] = {
            "auto_env_var_prefix": "ZKETCD_",
            "config_file_parser_class": _TomlFile,
            "allow_abbrev": False,
        }
        super().__init__(**ours | options)


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows the default of each option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, ""):
            return action.help
        return super()._get_help_string(action)


class _TomlFile(configargparse.TomlConfigParser):  # type: ignore[misc]  # it has no types
    """Names the file that is wrong."""

    def __init__(self) -> None:
        super().__init__([TABLE])

    def parse(self, stream: Any) -> Any:
        try:
            return super().parse(stream)
        except configargparse.ConfigFileParserException as error:
            raise configargparse.ConfigFileParserException(f"{stream.name}: {error}") from error
