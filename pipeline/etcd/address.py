"""How a command line names a tree in etcd, and says how etcd is reached.

etcd://HOST:PORT,.../PREFIX         the prefix begins with a slash
etcd://HOST:PORT,...?prefix=PREFIX  any prefix, as --prefix has it
etcds://...                         with TLS
"""

import argparse
import os
import re

from proxy.options.etcd import EtcdAccess
from proxy.options.table import Option, options_of

#: Schemes of such names, and etcd's own.
SCHEMES = {"etcd": "http", "etcds": "https"}
#: The server's options of access to etcd, which are not part of a name, by their own names without dashes.
ACCESS = {each.name.removeprefix("--"): each for each in options_of(EtcdAccess)}

_URL = re.compile(r"(etcds?)://([^/?]+)(?:/?\?prefix=(.*)|(/.*[^/])/*)", re.DOTALL)


def is_url(name: str) -> bool:
    """Whether a word of a command line names a tree in etcd."""
    return name.startswith(tuple(f"{scheme}://" for scheme in SCHEMES))


def taken_apart(url: str) -> tuple[str, str]:
    """(client URLs of etcd, separated by commas, and the prefix) of such a name. Raises ValueError."""
    if "@" in re.split("[/?]", url.partition("://")[2], maxsplit=1)[0]:
        raise ValueError("give --etcd-user and --etcd-password, not a user and password in a URL")
    found = _URL.fullmatch(url)
    if found is None:
        scheme = url.partition("://")[0]
        raise ValueError(
            f"{url} is not {scheme}://HOST:PORT/PREFIX, nor {scheme}://HOST:PORT?prefix=PREFIX for a prefix"
            " without a slash before it"
        )
    scheme, hosts, whole, path = found.groups()
    endpoints = ",".join(f"{SCHEMES[scheme]}://{host}" for host in hosts.split(","))
    return endpoints, path if whole is None else whole


def default_of(option: Option) -> str:
    """Its value where none is given."""
    return str(option.arguments.get("default", ""))


def add_access(parser: argparse._ActionsContainer) -> None:
    """Add the options of ACCESS, and their environment ZKETCD_..."""
    for name, each in ACCESS.items():
        metavar = each.arguments.get("metavar") or "|".join(each.arguments["choices"])
        add_option(parser, name, metavar, each.arguments["help"], default_of(each), secret=each.secret)


def add_option(
    parser: argparse._ActionsContainer,
    name: str,
    metavar: str,
    text: str,
    default: str,
    *,
    secret: bool = False,
) -> None:
    """Add an option whose default may be in the environment. `secret`: the help must not show it."""
    default = os.environ.get(f"ZKETCD_{name.upper().replace('-', '_')}", default)
    shown = "" if secret or not default else f" (default: {default})"
    parser.add_argument(f"--{name}", metavar=metavar, default=default, help=text + shown)
