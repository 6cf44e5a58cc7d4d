"""Configuration: command line, environment (`ZKETCD_...`) and a TOML file, in this order of precedence."""

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import configargparse

from codec.framing import DEFAULT_MAX_FRAME
from proxy import tls_options
from proxy.admin import words
from schema.keys import Keyspace

_DESCRIPTION = """A server that ZooKeeper clients take for ZooKeeper, with all state in etcd. Without --etcd
it starts a single-node etcd of its own, for a trial or a single machine."""
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_SWITCH = ("on", "off")
DEFAULT_EMBEDDED = "embedded"
# ZooKeeper's admin.serverPort, but for this machine alone.
_DEFAULT_ADMIN = ("127.0.0.1", 8080)
_NO_ADMIN = ("", -1)
_MAX_INT = (1 << 31) - 1  # of an int in ZooKeeper's protocol and settings
_TABLE = "zketcd"  # of the configuration file


@dataclass(frozen=True, slots=True)
class Config:
    """All settings. Times in milliseconds, sizes in bytes."""

    host: str
    port: int
    admin: tuple[str, int] | None  # the admin HTTP server's address; None for none
    admin_is_wished: bool  # it was asked for, so that we do not serve without
    etcd: tuple[str, ...]  # empty: embedded
    data_dir: str
    prefix: str
    tick_time: int
    min_session_timeout: int
    max_session_timeout: int
    max_client_connections: int
    max_connections: int
    global_outstanding_limit: int
    max_frame: int
    extended_types: bool
    enforce_quota: bool
    container_check_interval: int
    container_max_per_minute: int
    container_max_never_used: int
    four_letter_words: frozenset[str]
    keeper_extensions: bool
    availability_zone: str
    read_only_mode: bool
    log_level: str
    etcd_ca: str
    etcd_cert: str
    etcd_key: str
    etcd_user: str
    etcd_password: str
    super_digest: str
    tls: tls_options.ClientTls


def parse(arguments: Sequence[str] | None = None) -> Config:
    """The configuration of a command line. A wrong value says which and why on stderr, and exits with 2."""
    parser = _parser()
    given = parser.parse_args(arguments)
    stray = _outside_the_table(given.config)
    if stray:
        parser.error(f"{given.config}: options belong into a table [{_TABLE}]: {', '.join(stray)}")
    host, port = given.listen
    low = _milliseconds(given.min_session_timeout, given.tick_time)
    high = _milliseconds(given.max_session_timeout, given.tick_time)
    if max(low, high) > _MAX_INT:
        parser.error(f"a session timeout of {max(low, high)} ms is more than the protocol can tell")
    if low > high:
        parser.error(f"--min-session-timeout {low} is above --max-session-timeout {high}")
    if bool(given.etcd_cert) != bool(given.etcd_key):
        parser.error("--etcd-cert and --etcd-key go together")
    if bool(given.etcd_user) != bool(given.etcd_password):
        parser.error("--etcd-user and --etcd-password go together")
    try:
        tls = tls_options.read(given)
    except ValueError as error:
        parser.error(str(error))
        raise
    return Config(
        host=host,
        port=port,
        admin=given.admin_listen or _DEFAULT_ADMIN if given.admin_listen != _NO_ADMIN else None,
        admin_is_wished=given.admin_listen is not None,
        etcd=given.etcd,
        data_dir=given.data_dir,
        prefix=given.prefix,
        tick_time=given.tick_time,
        min_session_timeout=low,
        max_session_timeout=high,
        max_client_connections=given.max_client_connections,
        max_connections=given.max_connections,
        global_outstanding_limit=given.global_outstanding_limit,
        max_frame=given.max_frame,
        extended_types=given.extended_types_enabled,
        enforce_quota=given.enforce_quota,
        container_check_interval=given.container_check_interval,
        container_max_per_minute=given.container_max_per_minute,
        container_max_never_used=given.container_max_never_used,
        four_letter_words=given.four_letter_words,
        keeper_extensions=given.keeper_extensions == "on",
        availability_zone=given.availability_zone,
        read_only_mode=given.read_only_mode == "on",
        log_level=given.log_level,
        etcd_ca=given.etcd_ca,
        etcd_cert=given.etcd_cert,
        etcd_key=given.etcd_key,
        etcd_user=given.etcd_user,
        etcd_password=given.etcd_password,
        super_digest=given.super_digest,
        tls=tls,
    )


def _parser() -> Any:
    parser = configargparse.ArgumentParser(
        prog="python -m proxy",
        description=_DESCRIPTION,
        auto_env_var_prefix="ZKETCD_",
        config_file_parser_class=configargparse.TomlConfigParser([_TABLE]),
        formatter_class=configargparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--config",
        is_config_file=True,
        env_var="ZKETCD_CONFIG",
        metavar="FILE",
        help="TOML file; options without dashes, in a table [zketcd]",
    )
    add(
        "--listen", type=_address, default="127.0.0.1:2181", metavar="HOST:PORT", help="where clients connect"
    )
    add(
        "--admin-listen",
        type=_admin,
        metavar="HOST:PORT",
        help="where the admin HTTP server answers (/commands, /ready, /live, /metrics), 'none' for nowhere;"
        f" {_DEFAULT_ADMIN[0]}:{_DEFAULT_ADMIN[1]} unless somebody else is there (admin.serverPort)",
    )
    add(
        "--etcd",
        type=_endpoints,
        default=DEFAULT_EMBEDDED,
        metavar="ENDPOINTS",
        help="etcd's client URLs, separated by commas; 'embedded' starts a single-node etcd",
    )
    add(
        "--data-dir",
        type=_directory,
        default="data",
        metavar="DIR",
        help="where the embedded etcd keeps its data",
    )
    add("--prefix", type=_prefix, default="/zketcd", help="etcd prefix of the tree; one tree per prefix")
    add("--tick-time", type=_positive, default=2000, metavar="MS", help="ZooKeeper's tickTime")
    add(
        "--min-session-timeout",
        type=_timeout,
        default="2 ticks",
        metavar="MS",
        help="shortest session timeout",
    )
    add(
        "--max-session-timeout",
        type=_timeout,
        default="20 ticks",
        metavar="MS",
        help="longest session timeout",
    )
    add(
        "--max-client-connections",
        "--max-client-cnxns",
        type=_not_negative,
        default=60,
        metavar="N",
        help="connections from one address, 0 for no limit (maxClientCnxns)",
    )
    add(
        "--max-connections",
        "--max-cnxns",
        type=_not_negative,
        default=0,
        metavar="N",
        help="connections in all, 0 for no limit (maxCnxns)",
    )
    add(
        "--global-outstanding-limit",
        type=_positive,
        default=1000,
        metavar="N",
        help="requests of all clients that may wait, beyond which those who wait are not read from"
        " (globalOutstandingLimit)",
    )
    add(
        "--max-frame",
        "--jute-maxbuffer",
        type=_positive,
        default=DEFAULT_MAX_FRAME,
        metavar="BYTES",
        help="largest request (jute.maxbuffer)",
    )
    add(
        "--extended-types-enabled",
        type=_truth,
        default="true",
        metavar="BOOL",
        help="whether TTL nodes may be created (zookeeper.extendedTypesEnabled)",
    )
    add(
        "--enforce-quota",
        type=_truth,
        default="false",
        metavar="BOOL",
        help="whether the hard limits of quotas refuse what exceeds them (zookeeper.enforceQuota)",
    )
    add(
        "--container-check-interval",
        type=_positive,
        default=60000,
        metavar="MS",
        help="how often containers and TTL nodes are looked through (znode.container.checkIntervalMs)",
    )
    add(
        "--container-max-per-minute",
        type=_positive,
        default=10000,
        metavar="N",
        help="how many of them are deleted in a minute at most (znode.container.maxPerMinute)",
    )
    add(
        "--container-max-never-used",
        type=_not_negative,
        default=0,
        metavar="MS",
        help="how long a container may wait for its first child, 0 for ever "
        "(znode.container.maxNeverUsedIntervalMs)",
    )
    add(
        "--four-letter-words",
        type=_words,
        default=words.DEFAULT,
        metavar="WORDS",
        help="four-letter words that are answered, separated by commas, * for all (4lw.commands.whitelist)",
    )
    add(
        "--keeper-extensions",
        choices=_SWITCH,
        default="on",
        help="answer what ClickHouse Keeper has beyond ZooKeeper, and tell of it below /keeper",
    )
    add(
        "--availability-zone",
        default="",
        metavar="NAME",
        help="what /keeper/availability_zone tells, by which a ClickHouse chooses the nearest server",
    )
    add(
        "--read-only-mode",
        choices=_SWITCH,
        default="off",
        help="serve clients that allow it read-only while etcd is out of reach (readonlymode.enabled)",
    )
    add("--log-level", type=str.upper, choices=_LEVELS, default="INFO", help="how much is logged, on stderr")
    add(
        "--etcd-ca",
        type=_file,
        default="",
        metavar="FILE",
        help="PEM file of the CA that etcd's certificate is signed by",
    )
    add(
        "--etcd-cert",
        type=_file,
        default="",
        metavar="FILE",
        help="PEM file of the client certificate for etcd",
    )
    add("--etcd-key", type=_file, default="", metavar="FILE", help="PEM file of the client certificate's key")
    add("--etcd-user", default="", metavar="NAME", help="etcd user, where etcd has authentication on")
    add("--etcd-password", default="", metavar="WORD", help="its password; better set by environment or file")
    add(
        "--super-digest",
        type=_digest,
        default="",
        metavar="NAME:HASH",
        help="who may do all: user and base64 of the SHA-1 of `user:password`"
        " (zookeeper.DigestAuthenticationProvider.superDigest)",
    )
    tls_options.add_options(add, _file, _address)
    return parser


def _outside_the_table(file: str | None) -> list[str]:
    """Options of a configuration file that would be passed over, since they stand in no table or another."""
    if not file:
        return []
    with open(file, "rb") as stream:
        content = tomllib.load(stream)
    return [name for name, value in content.items() if name != _TABLE or not isinstance(value, dict)]


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or _digits(port) > 65535:
        raise configargparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _admin(text: str) -> tuple[str, int]:
    return _NO_ADMIN if text == "none" else _address(text)


def _endpoints(text: str) -> tuple[str, ...]:
    if text == DEFAULT_EMBEDDED:
        return ()
    endpoints = tuple(endpoint.strip() for endpoint in text.split(","))
    for endpoint in endpoints:
        if not re.fullmatch(
            r"(https?://)?[^/\s:]+(:\d+)?|(https?://)?\[[0-9a-fA-F:]+\](:\d+)?", endpoint.rstrip("/")
        ):
            raise configargparse.ArgumentTypeError(
                f"{endpoint!r} is not an etcd endpoint such as http://127.0.0.1:2379"
            )
    return endpoints


def _prefix(text: str) -> str:
    try:
        Keyspace(text)
    except ValueError as error:
        raise configargparse.ArgumentTypeError(str(error)) from error
    return text


def _directory(text: str) -> str:
    if not text or (os.path.exists(text) and not os.path.isdir(text)):
        raise configargparse.ArgumentTypeError(f"{text!r} is not a directory")
    return text


def _file(text: str) -> str:
    if text and not os.access(text, os.R_OK):
        raise configargparse.ArgumentTypeError(f"{text!r} is not a file that can be read")
    return text


def _digest(text: str) -> str:
    if text and not re.fullmatch(r"[^:]*:[A-Za-z0-9+/]{27}=", text):
        raise configargparse.ArgumentTypeError(f"{text!r} is not USER:HASH, with the base64 of a SHA-1")
    return text


def _words(text: str) -> frozenset[str]:
    try:
        return words.parse(text)
    except ValueError as error:
        raise configargparse.ArgumentTypeError(str(error)) from error


def _positive(text: str) -> int:
    if not 1 <= _digits(text) <= _MAX_INT:
        raise configargparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise configargparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _digits(text: str) -> int:
    """The number that at most ten digits make; more than any option takes for what is none."""
    return int(text) if re.fullmatch("[0-9]{1,10}", text) else _MAX_INT + 1


def _timeout(text: str) -> str:
    """MS, or N ticks."""
    if not re.fullmatch(r"[1-9]\d{0,8}( ticks)?", text):
        raise configargparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up, in milliseconds")
    return text


def _milliseconds(timeout: str, tick_time: int) -> int:
    number, _, ticks = timeout.partition(" ")
    return int(number) * (tick_time if ticks else 1)


def _not_negative(text: str) -> int:
    if _digits(text) > _MAX_INT:
        raise configargparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 up")
    return int(text)
