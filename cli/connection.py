"""How a command reaches etcd: the options, and the client that they make."""

from argparse import Namespace
from typing import Any

import configargparse

from cli.commands import description_of
from proxy.etcd.access import Access
from proxy.etcd.client import EtcdClient
from proxy.options import values
from proxy.options.etcd import DATA_DIR, PREFIX, EtcdAccess, check, embedded_url
from proxy.options.file import options_in
from proxy.options.parser import OptionParser
from proxy.options.table import add_options, options_of, values_of
from proxy.options.values import EMBEDDED

_ETCD = "http://127.0.0.1:2379"


def connecting_parser(command: str, description: str = "") -> Any:
    """The parser of a command, with the options that say which tree in etcd, and how etcd is reached."""
    made = OptionParser(
        prog=f"zketcd {command}",
        description=description or description_of(command),
        formatter_class=configargparse.ArgumentDefaultsHelpFormatter,
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
        "--etcd",
        type=values.endpoints,
        metavar="ENDPOINTS",
        help="etcd's client URLs, separated by commas; 'embedded' for the etcd of --data-dir (default: that"
        f" etcd if --data-dir is given, else {_ETCD})",
    )
    add(
        "--data-dir",
        type=values.directory,
        metavar="DIR",
        help="data directory of a server that runs an embedded etcd (default: data)",
    )
    add("--prefix", type=values.prefix, default=PREFIX, help="etcd prefix of the tree")
    add_options(add, EtcdAccess)
    add(
        "--patience",
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
    access = EtcdAccess(**values_of(EtcdAccess, given))
    try:
        check(access, endpoints(given))
    except ValueError as error:
        options.error(str(error))
    return access


def tree_in(file: str) -> tuple[Access, str]:
    """How a server with this TOML file reaches its etcd, and its prefix. Raises OSError, ValueError."""
    texts = {name: str(value) for name, value in options_in(file).items()}
    etcd = texts.get("etcd", EMBEDDED)
    if etcd == EMBEDDED:
        etcd = embedded_url(texts.get("data-dir", DATA_DIR))
    given = {
        each.dest: texts.get(each.name.removeprefix("--"), str(each.arguments.get("default", "")))
        for each in options_of(EtcdAccess)
    }
    access = EtcdAccess(**values_of(EtcdAccess, Namespace(**given)))
    found = tuple(endpoint.strip() for endpoint in etcd.split(","))
    check(access, found)
    return Access(found, access), texts.get("prefix", PREFIX)


def client_of(given: Any, access: EtcdAccess) -> EtcdClient:
    """The client of the etcd that a command line names. Raises OSError, ValueError."""
    return Access(endpoints(given), access).client()
