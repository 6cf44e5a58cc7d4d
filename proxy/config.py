"""Configuration: command line, environment (`ZKETCD_...`), TOML file, zoo.cfg, in order of precedence."""

import argparse
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import configargparse

from codec.framing import DEFAULT_MAX_FRAME
from proxy import option_values as values
from proxy import tls_options, zoo_cfg
from proxy.admin import words
from proxy.etcd.transport import HTTP2, TRANSPORTS
from proxy.frontend import proxy_protocol
from proxy.frontend.proxy_protocol import ProxyProtocol
from proxy.option_parser import TABLE, OptionParser
from proxy.sasl import options as sasl_options
from proxy.support import logs
from proxy.support.addresses import is_loopback

_DESCRIPTION = """A server for ZooKeeper clients that keeps all its state in etcd. Without --etcd it starts a
single-node etcd of its own, for a trial or for a single machine."""
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_SWITCH = ("on", "off")
_SECRETS = {"etcd-password", "tls-key-password", "sasl-user"}  # options whose values are passwords
# ZooKeeper's admin.serverPort, but only on the loopback interface.
_DEFAULT_ADMIN = ("127.0.0.1", 8080)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings. Times in milliseconds unless a comment says seconds, sizes in bytes."""

    host: str
    port: int
    admin: tuple[str, int] | None  # the admin HTTP server's address; None for none
    admin_is_required: bool  # the user named the address, so the server does not run without it
    admin_tls: bool
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
    log_format: str
    slow_request: int  # 0 for no log of them
    pause_warn: int  # ms that the event loop may be late before that is logged; 0 for no log of it
    traces: bool
    etcd_ca: str
    etcd_cert: str
    etcd_key: str
    etcd_user: str
    etcd_password: str
    etcd_transport: str
    proxy_lease: int  # seconds
    max_staleness: int  # seconds
    snapshot_log_bytes: int
    snapshot_log_requests: int
    super_digest: str
    tls: tls_options.ClientTls
    proxy_protocol: ProxyProtocol
    sasl: sasl_options.SaslSettings
    console: bool
    console_users: str  # a file; "" for no logins
    console_write: bool
    secret_files: tuple[tuple[str, str], ...]  # files with passwords or keys: their options and paths
    audit_log: str  # a file, "-" for the messages' own place, "" for none
    zoo_cfg: str  # the path of ZooKeeper's file; "" for none
    zoo_cfg_ignored: tuple[str, ...]  # its settings that have no meaning here
    zoo_cfg_unknown: tuple[str, ...]  # and those that ZooKeeper does not have either


def parse(arguments: Sequence[str] | None = None, command: str = "") -> Config:
    """The configuration of a command line. A wrong value is reported on stderr and exits with 2."""
    made = parser(command)
    given = made.parse_args(arguments)
    stray = _outside_the_table(given.config)
    if stray:
        made.error(f"{given.config}: options belong into a table [{TABLE}]: {', '.join(stray)}")
    ignored: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    if given.zoo_cfg:
        try:
            ignored, unknown = _take_zoo_cfg(made, given)
        except (OSError, ValueError) as error:
            made.error(f"{given.zoo_cfg}: {getattr(error, 'strerror', None) or error}")
        given = made.parse_args(arguments)
    _check_pairs(made, given)
    low, high = _session_timeouts(made, given)
    try:
        tls = tls_options.read(given)
        sasl = sasl_options.read(given, has_x509=bool(tls.cert) and tls.client_auth != "none")
    except ValueError as error:
        made.error(str(error))
        raise
    host, port = given.listen
    admin = _admin_address(made, given, tls)
    return Config(
        host=host,
        port=port,
        admin=admin,
        admin_is_required=given.admin_listen is not None,
        admin_tls=given.admin_tls == "on",
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
        log_format=given.log_format,
        slow_request=given.slow_request_ms,
        pause_warn=given.pause_warn_ms,
        traces=given.traces == "on",
        etcd_ca=given.etcd_ca,
        etcd_cert=given.etcd_cert,
        etcd_key=given.etcd_key,
        etcd_user=given.etcd_user,
        etcd_password=given.etcd_password,
        etcd_transport=given.etcd_transport,
        proxy_lease=given.proxy_lease,
        max_staleness=given.max_staleness,
        snapshot_log_bytes=given.snapshot_log_bytes,
        snapshot_log_requests=given.snapshot_log_requests,
        super_digest=given.super_digest,
        tls=tls,
        proxy_protocol=ProxyProtocol(given.proxy_protocol, given.proxy_protocol_from),
        sasl=sasl,
        console=_console(made, given, admin, tls),
        console_users=given.console_users,
        console_write=given.console_write == "on",
        secret_files=_secret_files(given, sasl),
        audit_log=given.audit_log,
        zoo_cfg=given.zoo_cfg,
        zoo_cfg_ignored=ignored,
        zoo_cfg_unknown=unknown,
    )


def _check_pairs(parser: Any, given: Any) -> None:
    """Refuse options that need each other."""
    if bool(given.etcd_cert) != bool(given.etcd_key):
        parser.error("--etcd-cert and --etcd-key must be given together")
    if bool(given.etcd_user) != bool(given.etcd_password):
        parser.error("--etcd-user and --etcd-password must be given together")
    if (given.proxy_protocol != proxy_protocol.OFF) != bool(given.proxy_protocol_from):
        parser.error(
            "--proxy-protocol accept or require and --proxy-protocol-from must be given together: a PROXY"
            " header from anybody else would forge the client's address"
        )


def _session_timeouts(parser: Any, given: Any) -> tuple[int, int]:
    """The shortest and the longest session timeout, in milliseconds."""
    low = values.milliseconds(given.min_session_timeout, given.tick_time)
    high = values.milliseconds(given.max_session_timeout, given.tick_time)
    if max(low, high) > values.MAX_INT:
        parser.error(f"a session timeout of {max(low, high)} ms does not fit into ZooKeeper's protocol")
    if low > high:
        parser.error(f"--min-session-timeout {low} is above --max-session-timeout {high}")
    return low, high


def _admin_address(parser: Any, given: Any, tls: tls_options.ClientTls) -> tuple[str, int] | None:
    """Where the admin HTTP server listens; None for none. Refuses addresses that are given twice."""
    admin: tuple[str, int] | None = None if given.admin_listen == values.NO_ADMIN else given.admin_listen
    ports = (("--listen", given.listen), ("--admin-listen", admin), ("--secure-listen", tls.secure))
    for (one, address), (other, same) in combinations(ports, 2):
        if address is not None and address == same and address[1] != 0:
            parser.error(f"{one} and {other} are both {address[0]}:{address[1]}")
    if given.admin_listen is None and all(
        address is None or address[1] != _DEFAULT_ADMIN[1] for _, address in ports
    ):
        return _DEFAULT_ADMIN
    return admin


def _secret_files(given: Any, sasl: sasl_options.SaslSettings) -> tuple[tuple[str, str], ...]:
    """The files that hold passwords or keys, each with the option that names it."""
    has_secrets = bool(given.config) and not _SECRETS.isdisjoint(_content(given.config).get(TABLE, {}))
    return tuple(
        (option, file)
        for option, file in (
            ("--config", given.config if has_secrets else ""),
            ("--console-users", given.console_users),
            ("--sasl-users-file", given.sasl_users_file),
            ("--jaas-file", given.jaas_file),
            ("--sasl-keytab", sasl.keytab),
            ("--tls-key", given.tls_key),
            ("--etcd-key", given.etcd_key),
        )
        if file
    )


def _console(parser: Any, given: Any, admin: tuple[str, int] | None, tls: tls_options.ClientTls) -> bool:
    """Whether there is a console."""
    if given.admin_tls == "on" and not tls.cert:
        parser.error("--admin-tls on needs --tls-cert and --tls-key")
    is_local = admin is not None and is_loopback(admin[0])
    wanted = given.console == "on" or bool(given.console_users) or given.console_write == "on"
    if given.console == "off" and (given.console_users or given.console_write == "on"):
        parser.error("--console off excludes --console-users and --console-write")
    if wanted and admin is None:
        parser.error("the console needs --admin-listen")
    has_logins = bool(given.console_users) or (given.admin_tls == "on" and tls.client_auth != "none")
    if wanted and not is_local and not has_logins:
        parser.error(
            "--console-users is missing: without it, and without --admin-tls on and certificates of clients,"
            " there is a console only where --admin-listen is on the loopback interface"
        )
    return given.console != "off" and (wanted or is_local)


def _take_zoo_cfg(parser: Any, given: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Make what zoo.cfg says the defaults; the settings that were ignored, and unknown. Raises ValueError."""
    # Java reads such files as Latin-1 (java.util.Properties.load).
    text = Path(given.zoo_cfg).read_text(encoding="latin-1")

    def is_given(option: str) -> bool:
        default = parser.get_default(option)
        action = actions[option]
        if isinstance(default, str) and action.type is not None:
            default = action.type(default)
        return bool(getattr(given, option) != default)

    actions = {action.dest: action for action in parser._actions}
    found = zoo_cfg.read(text, is_given)
    for option, value in found.options.items():
        action = actions[option]
        key = found.origin[option]
        try:
            read = action.type(value) if action.type is not None else value
        except (configargparse.ArgumentTypeError, ValueError) as error:
            raise ValueError(f"{key}: {error}") from error
        if action.choices is not None and read not in action.choices:
            raise ValueError(f"{key}: {value!r} is none of {', '.join(action.choices)}")
    parser.set_defaults(**found.options)
    return found.ignored, found.unknown


class _HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows the default of each option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, ""):
            return action.help
        return super()._get_help_string(action)


def parser(command: str = "") -> Any:
    """The parser of `python -m proxy`; with a name, of that command of `zketcd`."""
    made = OptionParser(
        prog=f"zketcd {command}" if command else "python -m proxy",
        description=_DESCRIPTION,
        formatter_class=_HelpFormatter,
    )
    add = made.add_argument
    _add_basics(add)
    _add_limits(add)
    _add_rules(add)
    _add_client_services(add)
    _add_operator_services(add)
    _add_log_options(add)
    add(
        "--super-digest",
        type=values.digest,
        default="",
        metavar="NAME:HASH",
        help="user that has all permissions: name and base64 of the SHA-1 of `name:password`"
        " (zookeeper.DigestAuthenticationProvider.superDigest)",
    )
    tls_options.add_options(add, values.file, values.address)
    sasl_options.add_options(add, values.file, values.truth)
    return made


def _add_basics(add: Callable[..., Any]) -> None:
    """Files with options, addresses, and where the tree lies."""
    add(
        "--config",
        is_config_file=True,
        env_var="ZKETCD_CONFIG",
        metavar="FILE",
        help="TOML file with options, named without the leading dashes, in a table [zketcd]",
    )
    add(
        "--zoo-cfg",
        type=values.file,
        default="",
        metavar="FILE",
        help="ZooKeeper's configuration file. Settings that mean the same here are used unless an option sets"
        " them; settings that would be dangerous to ignore stop the start",
    )
    add(
        "--listen",
        type=values.address,
        default="127.0.0.1:2181",
        metavar="HOST:PORT",
        help="address for ZooKeeper clients (clientPort)",
    )
    add(
        "--admin-listen",
        type=values.admin,
        metavar="HOST:PORT",
        help="address of the admin HTTP server (/commands, /ready, /live, /metrics), or 'none'. The default"
        f" is {_DEFAULT_ADMIN[0]}:{_DEFAULT_ADMIN[1]} if that port is free, else none (admin.serverPort)",
    )
    add(
        "--admin-tls",
        choices=_SWITCH,
        default="off",
        help="whether the admin HTTP server takes only TLS, with the certificate of --tls-cert. Clients that"
        " show a certificate signed by --tls-ca are logged in to the console; others, such as probes, need"
        " none",
    )
    add(
        "--etcd",
        type=values.endpoints,
        default=values.EMBEDDED,
        metavar="ENDPOINTS",
        help="client URLs of etcd, separated by commas; 'embedded' starts a single-node etcd",
    )
    add(
        "--data-dir",
        type=values.directory,
        default="data",
        metavar="DIR",
        help="data directory of the embedded etcd",
    )
    add(
        "--prefix",
        type=values.prefix,
        default="/zketcd",
        help="etcd key prefix of this tree; each prefix holds one tree",
    )


def _add_limits(add: Callable[..., Any]) -> None:
    """Sessions' timeouts, and limits for clients."""
    add(
        "--tick-time",
        type=values.positive,
        default=2000,
        metavar="MS",
        help="unit of the session timeouts' limits (tickTime)",
    )
    add(
        "--min-session-timeout",
        type=values.timeout,
        default="2 ticks",
        metavar="MS",
        help="shortest session timeout that a client can get (minSessionTimeout)",
    )
    add(
        "--max-session-timeout",
        type=values.timeout,
        default="20 ticks",
        metavar="MS",
        help="longest session timeout that a client can get (maxSessionTimeout)",
    )
    add(
        "--max-client-connections",
        "--max-client-cnxns",
        type=values.not_negative,
        default=60,
        metavar="N",
        help="most connections from one address, 0 for no limit (maxClientCnxns)",
    )
    add(
        "--max-connections",
        "--max-cnxns",
        type=values.not_negative,
        default=0,
        metavar="N",
        help="most connections of all clients together, 0 for no limit (maxCnxns)",
    )
    add(
        "--global-outstanding-limit",
        type=values.positive,
        default=1000,
        metavar="N",
        help="most unanswered requests of all clients together. Above this limit zketcd stops reading from"
        " clients that already have a request waiting (globalOutstandingLimit)",
    )
    add(
        "--max-frame",
        "--jute-maxbuffer",
        type=values.positive,
        default=DEFAULT_MAX_FRAME,
        metavar="BYTES",
        help="largest request that a client may send (jute.maxbuffer)",
    )


def _add_rules(add: Callable[..., Any]) -> None:
    """What requests may do, and when nodes are deleted."""
    add(
        "--extended-types-enabled",
        type=values.truth,
        default="true",
        metavar="BOOL",
        help="whether clients may create TTL nodes (zookeeper.extendedTypesEnabled)",
    )
    add(
        "--enforce-quota",
        type=values.truth,
        default="false",
        metavar="BOOL",
        help="whether a write that exceeds the hard limit of a quota is refused (zookeeper.enforceQuota)",
    )
    add(
        "--container-check-interval",
        type=values.positive,
        default=60000,
        metavar="MS",
        help="time between two searches for containers and TTL nodes to delete"
        " (znode.container.checkIntervalMs)",
    )
    add(
        "--container-max-per-minute",
        type=values.positive,
        default=10000,
        metavar="N",
        help="most containers and TTL nodes deleted in one minute (znode.container.maxPerMinute)",
    )
    add(
        "--container-max-never-used",
        type=values.not_negative,
        default=0,
        metavar="MS",
        help="time after which a container that never had a child is deleted, 0 for never"
        " (znode.container.maxNeverUsedIntervalMs)",
    )


def _add_client_services(add: Callable[..., Any]) -> None:
    """What clients are offered, and how they are recognized behind load balancers."""
    add(
        "--four-letter-words",
        type=_words,
        default=words.DEFAULT,
        metavar="WORDS",
        help="four-letter words that are answered, separated by commas; * for all (4lw.commands.whitelist)",
    )
    add(
        "--keeper-extensions",
        choices=_SWITCH,
        default="on",
        help="whether to offer ClickHouse Keeper's extensions of the protocol and list them below /keeper",
    )
    add(
        "--availability-zone",
        default="",
        metavar="NAME",
        help="value of /keeper/availability_zone, by which a ClickHouse server finds the nearest zketcd",
    )
    add(
        "--read-only-mode",
        choices=_SWITCH,
        default="off",
        help="while etcd is out of reach, whether clients that allow it are served read-only"
        " (readonlymode.enabled)",
    )
    add(
        "--proxy-protocol",
        choices=proxy_protocol.MODES,
        default=proxy_protocol.OFF,
        help="whether load balancers say with a PROXY header (version 1 or 2) for whom they connect. accept:"
        " those of --proxy-protocol-from may send one, all others are clients. require: they must send one,"
        " and nobody else can connect",
    )
    add(
        "--proxy-protocol-from",
        type=values.networks,
        default="",
        metavar="NETWORKS",
        help="addresses or networks of the load balancers whose PROXY headers are believed, separated by"
        " commas, for instance 10.0.0.7,10.1.0.0/16",
    )


def _add_operator_services(add: Callable[..., Any]) -> None:
    """Messages, traces, the audit log, the console."""
    add(
        "--log-level",
        type=str.upper,
        choices=_LEVELS,
        default="INFO",
        help="lowest level of the messages that are logged on stderr",
    )
    add(
        "--log-format",
        choices=logs.FORMATS,
        default=logs.TEXT,
        help="form of the messages on stderr and of the audit log: text, or one JSON object a line",
    )
    add(
        "--slow-request-ms",
        type=values.not_negative,
        default=0,
        metavar="MS",
        help="requests that take this long are logged, with where the time went; 0 for none",
    )
    add(
        "--pause-warn-ms",
        type=values.not_negative,
        default=1000,
        metavar="MS",
        help="pauses of the whole process that take this long are logged; 0 for none"
        " (jvm.pause.warn-threshold.ms)",
    )
    add(
        "--traces",
        choices=_SWITCH,
        default="off",
        help="whether spans of clients' requests are sent by OTLP over HTTP, as the OTEL_* variables of the"
        " OpenTelemetry SDK say; needs `make setup-otel`",
    )
    add(
        "--audit-log",
        default="",
        metavar="FILE",
        help="file to which a line is appended for each change that a client asks for, as ZooKeeper's audit"
        " log; - for the messages on stderr (audit.enable)",
    )
    add(
        "--console",
        choices=("auto", *_SWITCH),
        default="auto",
        help="whether the admin server has a console at /console; auto: if --admin-listen is on the loopback"
        " interface, or --console-users is given",
    )
    add(
        "--console-users",
        type=values.file,
        default="",
        metavar="FILE",
        help="users who may log in to the console, a line for each as `zketcd console-user NAME` prints it."
        " Without users everybody who reaches the loopback interface can use it",
    )
    add(
        "--console-write",
        choices=_SWITCH,
        nargs="?",
        const="on",
        default="off",
        help="whether the console's users may create, change and delete znodes",
    )


def _add_log_options(add: Callable[..., Any]) -> None:
    """How this proxy works with etcd: access, lease, snapshots."""
    values.add_etcd_access(add)
    add(
        "--etcd-transport",
        choices=TRANSPORTS,
        default=HTTP2,
        help="implementation of gRPC: http2 is built in and faster; grpcio is for gateways that http2 fails"
        " with, and needs a library of its own (docs/install.md)",
    )
    add(
        "--proxy-lease",
        type=values.lease,
        default=5,
        metavar="SECONDS",
        help="time without contact to etcd after which the other proxies take this proxy for dead",
    )
    add(
        "--max-staleness",
        type=values.positive,
        default=10,
        metavar="SECONDS",
        help="a proxy that has not applied entries of this age stops serving until it has",
    )
    add(
        "--snapshot-log-bytes",
        type=values.positive,
        default=64 << 20,
        metavar="BYTES",
        help="a snapshot is not written before the log since the last one has this size, unless it has"
        " --snapshot-log-requests",
    )
    add(
        "--snapshot-log-requests",
        type=values.positive,
        default=200_000,
        metavar="N",
        help="a snapshot is not written before the log since the last one has this many requests, unless it"
        " has --snapshot-log-bytes",
    )


def _outside_the_table(file: str | None) -> list[str]:
    """Options of a configuration file that would be ignored because they are not in the right table."""
    if not file:
        return []
    return [name for name, value in _content(file).items() if name != TABLE or not isinstance(value, dict)]


def _content(file: str) -> dict[str, Any]:
    with open(file, "rb") as stream:
        return tomllib.load(stream)


def _words(text: str) -> frozenset[str]:
    try:
        return words.parse(text)
    except ValueError as error:
        raise configargparse.ArgumentTypeError(str(error)) from error
