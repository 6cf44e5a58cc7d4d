"""How a command reaches etcd: the options, and the client that they make."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from cli.commands import description_of
from proxy.etcd.access import Access
from proxy.etcd.client import EtcdClient
from proxy.options import values
from proxy.options.etcd import DATA_DIR, PREFIX, EtcdAccess, check, embedded_url
from proxy.options.file import options_in
from proxy.options.parser import HelpFormatter, OptionParser
from proxy.options.table import add_options, options_of, values_of
from proxy.options.values import EMBEDDED
from schema.keys import Keyspace

_ETCD = "http://127.0.0.1:2379"


def configured_parser(command: str, description: str = "") -> Any:
    """The parser of a command, with the server's options that say how etcd is reached."""
    made = OptionParser(
        prog=f"zketcd {command}",
        description=description or description_of(command),
        formatter_class=HelpFormatter,
        ignore_unknown_config_file_keys=True,
    )
    add = made.add_argument
    add(
        "--config",
        is_config_file=True,
        env_var="ZKETCD_CONFIG",
        metavar="FILE",
        help="the server's TOML file; options that only the server has are ignored",
    )
    add(
        "--data-dir",
        type=values.directory,
        metavar="DIR",
        help="data directory of a server that runs an embedded etcd (default: data)",
    )
    add_options(add, EtcdAccess)
    return made


def add_tree(add: Any, otherwise: str = _ETCD) -> None:
    """Add the options that say which tree in which etcd."""
    add(
        "--etcd",
        type=values.endpoints,
        metavar="ENDPOINTS",
        help="etcd's client URLs, separated by commas; 'embedded' for the etcd of --data-dir (default: that"
        f" etcd if --data-dir is given, else {otherwise})",
    )
    add("--prefix", type=values.prefix, default=PREFIX, help="etcd prefix of the tree")


def connecting_parser(command: str, description: str = "") -> Any:
    """The parser of a command, with the options that say which tree in etcd, and how etcd is reached."""
    made = configured_parser(command, description)
    add_tree(made.add_argument)
    made.add_argument(
        "--timeout",
        type=values.positive,
        default=10,
        metavar="SECONDS",
        help="time to wait for an etcd that does not answer",
    )
    return made


def endpoints(given: Any) -> tuple[str, ...]:
    """The etcd that a command line with the options of `connecting_parser` names."""
    if given.etcd or (given.etcd is None and given.data_dir is None):
        return given.etcd or (_ETCD,)
    return (embedded_url(given.data_dir or DATA_DIR),)


def access_of(given: Any, options: Any) -> EtcdAccess:
    """The options of access to etcd; wrong ones end the process with exit code 2. Blocks."""
    try:
        return access_to(endpoints(given), given).options
    except ValueError as error:
        return options.error(str(error))  # type: ignore[no-any-return]


def access_to(etcd: tuple[str, ...], given: Any) -> Access:
    """Access to this etcd by the options that a command line has. Raises ValueError; blocks."""
    access = EtcdAccess(**values_of(EtcdAccess, given))
    check(access, etcd)
    return Access(etcd, access)


def tree_in(file: str) -> tuple[Access, str]:
    """How a server with this TOML file reaches its etcd, and its prefix. Raises OSError, ValueError."""
    return tree_of({name: str(value) for name, value in options_in(file).items()})


def tree_of(texts: Mapping[str, str]) -> tuple[Access, str]:
    """The same, of options by their names without dashes. Raises ValueError."""
    etcd = texts.get("etcd", EMBEDDED)
    if etcd == EMBEDDED:
        etcd = embedded_url(texts.get("data-dir", DATA_DIR))
    given = {
        each.dest: texts.get(each.name.removeprefix("--"), str(each.arguments.get("default", "")))
        for each in options_of(EtcdAccess)
    }
    prefix = texts.get("prefix", PREFIX)
    Keyspace(prefix)
    return access_to(tuple(endpoint.strip() for endpoint in etcd.split(",")), Namespace(**given)), prefix


def client_of(given: Any, access: EtcdAccess) -> EtcdClient:
    """The client of the etcd that a command line names. Raises OSError, ValueError."""
    return Access(endpoints(given), access).client()
