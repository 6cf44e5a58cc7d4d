"""Configuration: command line, environment (`ZKETCD_...`), TOML file, zoo.cfg, in order of precedence."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from itertools import combinations
from typing import Any

from codec.framing import DEFAULT_MAX_FRAME
from proxy import zoo_cfg
from proxy.frontend import proxy_protocol
from proxy.frontend.proxy_protocol import ProxyProtocol
from proxy.options import archive as archive_options
from proxy.options import defaults, values, words
from proxy.options import etcd as etcd_options
from proxy.options import tls as tls_options
from proxy.options import zoo_values as zoo
from proxy.options.archive import ArchiveOptions
from proxy.options.etcd import PREFIX, EtcdAccess
from proxy.options.file import options_in
from proxy.options.parser import HelpFormatter, OptionParser, unknown_variables
from proxy.options.table import add_options, file_option, group, option, options_of, switch, truth, values_of
from proxy.options.tls import ClientTls
from proxy.options.top import TopOptions
from proxy.sasl import options as sasl_options
from proxy.sasl.options import SaslOptions, SaslSettings
from proxy.support import logs
from proxy.support.addresses import is_loopback, listening_address
from proxy.support.rates import rules_of
from schema.budgets import Rule

_DESCRIPTION = """A server for ZooKeeper clients that keeps all its state in etcd. Without --etcd it starts a
single-node etcd of its own, for a trial or for a single machine."""
# ZooKeeper's admin.serverPort, but only on the loopback interface.
_DEFAULT_ADMIN = ("127.0.0.1", 8080)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings. Times in milliseconds unless a comment says seconds, sizes in bytes.

    Fields without `option` follow from several options. So do the bounds of timeouts, `admin` and `console`.
    """

    # Files with options, addresses, and where the tree is stored.
    config_file: str = option(
        "TOML file with options, named without the leading dashes, in a table [zketcd]",
        name="--config",
        is_config_file=True,
        env_var="ZKETCD_CONFIG",
        metavar="FILE",
        default=None,
        final=lambda found: found or "",
    )
    zoo_cfg: str = file_option(
        "ZooKeeper's configuration file. Settings that mean the same here are used unless an option sets"
        " them; settings that would be dangerous to ignore stop the start"
    )
    zoo_cfg_ignored: tuple[str, ...]  # its settings that have no meaning here
    zoo_cfg_unknown: tuple[str, ...]  # and those that ZooKeeper does not have either
    secrets_on_command_line: tuple[str, ...]  # options, which other users of this host can read there
    unknown_variables: tuple[str, ...]  # of the environment
    secret_files: tuple[tuple[str, str], ...]  # files with passwords or keys: their options and paths
    listen: tuple[str, int] = option(
        "address for ZooKeeper clients (clientPort)",
        type=values.address,
        default="127.0.0.1:2181",
        metavar="HOST:PORT",
    )
    admin: tuple[str, int] | None = option(  # None for no admin HTTP server
        "address of the admin HTTP server (/commands, /ready, /live, /metrics), or 'none'. The default"
        f" is {_DEFAULT_ADMIN[0]}:{_DEFAULT_ADMIN[1]} if that port is free, else none; an address that is"
        " given has to be free (admin.serverPort)",
        name="--admin-listen",
        type=values.admin,
        default=None,
        metavar="HOST:PORT",
    )
    peer_listen: tuple[str, int] | None = option(  # None for none
        "address at which this proxy takes the log entries of other proxies, to append them together with"
        " its own (docs/etcd.md); other proxies have to reach it, and clients must not",
        type=lambda text: values.address(text) if text else None,
        metavar="HOST:PORT",
    )
    peer_advertise: tuple[str, int] | None = option(  # None: that of --peer-listen
        "address at which other proxies reach --peer-listen, if it is another one, as behind a container's"
        " network",
        type=lambda text: values.address(text) if text else None,
        metavar="HOST:PORT",
    )
    admin_is_required: bool  # the user named the address, so the server does not run without it
    admin_tls: bool = switch(
        "whether the admin HTTP server takes only TLS, with the certificate of --tls-cert. Clients that"
        " show a certificate signed by --tls-ca are logged in to the console; others, such as probes, need"
        " none"
    )
    etcd: tuple[str, ...] = option(  # empty: embedded
        "client URLs of etcd, separated by commas; 'embedded' starts a single-node etcd",
        type=values.endpoints,
        default=values.EMBEDDED,
        metavar="ENDPOINTS",
    )
    data_dir: str = option(
        "data directory of the embedded etcd",
        type=values.directory,
        default=etcd_options.DATA_DIR,
        metavar="DIR",
    )
    prefix: str = option(
        "etcd key prefix of this tree; zketcd writes nothing outside it, and each prefix holds one tree",
        type=values.prefix,
        default=PREFIX,
    )

    # Session timeouts, and limits for clients.
    tick_time: int = option(
        "unit of the session timeouts' limits (tickTime)",
        type=values.positive,
        default=2000,
        metavar="MS",
        zoo="tickTime",
    )
    min_session_timeout: int = option(
        "shortest session timeout that a client can get (minSessionTimeout)",
        type=values.timeout,
        default="2 ticks",
        metavar="MS",
        zoo={"minSessionTimeout": zoo.timeout},
    )
    max_session_timeout: int = option(
        "longest session timeout that a client can get (maxSessionTimeout)",
        type=values.timeout,
        default="20 ticks",
        metavar="MS",
        zoo={"maxSessionTimeout": zoo.timeout},
    )
    max_client_connections: int = option(
        "most connections from one address; others are closed. 0 for no limit (maxClientCnxns)",
        aliases=("--max-client-cnxns",),
        type=values.not_negative,
        default=60,
        metavar="N",
        zoo="maxClientCnxns",
    )
    max_connections: int = option(
        "most connections of all clients together; others are closed. 0 for no limit (maxCnxns)",
        aliases=("--max-cnxns",),
        type=values.not_negative,
        default=0,
        metavar="N",
        zoo="maxCnxns",
    )
    global_outstanding_limit: int = option(
        "most unanswered requests of all clients together. Above this limit zketcd stops reading from"
        " clients that already have a request waiting (globalOutstandingLimit)",
        type=values.positive,
        default=1000,
        metavar="N",
        zoo="globalOutstandingLimit",
    )
    max_frame: int = option(
        "largest request; a client that sends a larger one is disconnected (jute.maxbuffer)",
        aliases=("--jute-maxbuffer",),
        type=values.frame,
        default=DEFAULT_MAX_FRAME,
        metavar="BYTES",
        zoo={"jute.maxbuffer": zoo.number},
    )

    # What requests may do, and when nodes are deleted.
    extended_types: bool = truth(
        "whether clients may create TTL nodes (zookeeper.extendedTypesEnabled, which is false by default)",
        "true",
        name="--extended-types-enabled",
        zoo="extendedTypesEnabled",
    )
    enforce_quota: bool = truth(
        "whether a write that exceeds the hard limit of a quota is refused (zookeeper.enforceQuota)",
        zoo="enforceQuota",
    )
    container_check_interval: int = option(
        "time between two searches for containers and TTL nodes to delete (znode.container.checkIntervalMs)",
        type=values.positive,
        default=60000,
        metavar="MS",
        zoo="znode.container.checkIntervalMs",
    )
    container_max_per_minute: int = option(
        "most containers and TTL nodes deleted in one minute (znode.container.maxPerMinute)",
        type=values.positive,
        default=10000,
        metavar="N",
        zoo="znode.container.maxPerMinute",
    )
    container_max_never_used: int = option(
        "time after which a container that never had a child is deleted, 0 for never"
        " (znode.container.maxNeverUsedIntervalMs)",
        type=values.not_negative,
        default=0,
        metavar="MS",
        zoo="znode.container.maxNeverUsedIntervalMs",
    )

    # What clients are offered, and how they are recognized behind load balancers.
    four_letter_words: frozenset[str] = option(
        "four-letter words that are answered, separated by commas; * for all (4lw.commands.whitelist)",
        type=values.checked(words.parse),
        default=words.DEFAULT,
        metavar="WORDS",
        zoo="4lw.commands.whitelist",
    )
    keeper_extensions: bool = switch(
        "whether to offer ClickHouse Keeper's extensions of the protocol and list them below /keeper",
        default="on",
    )
    availability_zone: str = option(
        "value of /keeper/availability_zone, by which a ClickHouse server finds the nearest zketcd",
        type=values.unicode,
        metavar="NAME",
    )
    read_only_mode: bool = switch(
        "while etcd is out of reach, or the tree follows another one, whether clients that allow it are"
        " served read-only (readonlymode.enabled)",
        zoo={"readonlymode.enabled": zoo.switch},
    )
    proxy_protocol_mode: str = option(
        "whether load balancers say with a PROXY header (version 1 or 2) for whom they connect. accept:"
        " those of --proxy-protocol-from may send one, all others are clients. require: they must send one,"
        " and nobody else can connect",
        name="--proxy-protocol",
        choices=proxy_protocol.MODES,
        default=proxy_protocol.OFF,
    )
    proxy_protocol_from: tuple[IPv4Network | IPv6Network, ...] = option(
        "addresses or networks of the load balancers whose PROXY headers are believed, separated by"
        " commas, for instance 10.0.0.7,10.1.0.0/16",
        type=values.networks,
        metavar="NETWORKS",
    )

    # Messages, traces, the audit log, the console.
    log_level: str = option(
        "lowest level of the messages that are logged on stderr",
        type=str.upper,
        choices=logs.LEVELS,
        default="INFO",
    )
    log_format: str = option(
        "form of the messages on stderr and of the audit log: text, or one JSON object a line",
        choices=logs.FORMATS,
        default=logs.TEXT,
    )
    slow_request: int = option(  # 0 for no log of them
        "requests that take this long are logged, with where the time went; 0 for none",
        name="--slow-request-ms",
        type=values.not_negative,
        default=0,
        metavar="MS",
    )
    pause_warn: int = option(  # 0 for no log of them
        "pauses of the whole process that take this long are logged; 0 for none"
        " (jvm.pause.warn-threshold.ms)",
        name="--pause-warn-ms",
        type=values.not_negative,
        default=1000,
        metavar="MS",
        zoo={"jvm.pause.warn-threshold.ms": zoo.number},
    )
    traces: bool = switch(
        "whether spans of clients' requests are sent by OTLP over HTTP, as the OTEL_* variables of the"
        " OpenTelemetry SDK say; needs `make setup-otel`"
    )
    audit_log: str = option(  # a file, "-" for the messages' own place, "" for none
        "file to which a line is appended for each change that a client asks for, as ZooKeeper's audit"
        " log; - for the messages on stderr (audit.enable)",
        metavar="FILE",
        zoo={"audit.enable": zoo.audit_log},
    )
    console: bool = option(
        "whether the admin server has a console at /console; auto: if --admin-listen is on the loopback"
        " interface, or --console-users is given",
        choices=("auto", "on", "off"),
        default="auto",
    )
    console_users: str = file_option(  # a file; "" for no logins
        "users who may log in to the console, a line for each as `zketcd console-user NAME` prints it."
        " Without users everybody who reaches the loopback interface can use it",
        secret_file=True,
    )
    console_write: bool = switch(
        "whether the console's users may create, change and delete znodes", nargs="?", const="on"
    )

    top: TopOptions = field(metadata=group(TopOptions))

    # How this proxy works with etcd: access, lease, snapshots.
    etcd_access: EtcdAccess = field(metadata=group(EtcdAccess))
    archive: ArchiveOptions = field(metadata=group(ArchiveOptions))
    proxy_lease: int = option(  # seconds
        "time without contact to etcd after which the other proxies take this proxy for dead",
        type=values.lease,
        default=defaults.LEASE,
        metavar="SECONDS",
    )
    max_staleness: int = option(  # seconds
        "a proxy that has not applied entries of this age lets all clients wait until it has. If etcd has not"
        " delivered them, it closes its connections, and serves no client until then",
        type=values.positive,
        default=defaults.MAX_STALENESS,
        metavar="SECONDS",
    )
    standby_within: int = option(  # seconds
        "once a follower with this option has signed, serve only while it has been heard within so many"
        " seconds, so that a standby that is promoted without this side knows that it does not answer any"
        " more; 0: serve without one",
        type=values.standby,
        default=defaults.STANDBY_WITHIN,
        metavar="SECONDS",
    )
    etcd_reserve: int = option(
        "percent of etcd's quota that are kept free: when less is free, requests that make the tree grow are"
        " refused with SYSTEMERROR; 0: etcd refuses when its quota is used up",
        type=values.percent,
        default=defaults.ETCD_RESERVE,
        metavar="PERCENT",
    )
    budget: tuple[Rule, ...] = option(
        "most writes, and bytes of data, that clients may make below a path each second, such as"
        " /app=500/s,10MB/s; several separated by commas. The proxy makes them the tree's budgets at its"
        " start, so give all proxies the same ones (docs/budgets.md)",
        type=values.checked(rules_of),
        metavar="BUDGETS",
    )
    snapshot_log_bytes: int = option(
        "a snapshot is written when the log since the last one has this size, and at least that snapshot's",
        type=values.positive,
        default=defaults.SNAPSHOT_BYTES,
        metavar="BYTES",
    )
    snapshot_log_requests: int = option(
        "a snapshot is also written when the log since the last one has this many requests, and at least as"
        " many as that snapshot has znodes; a multi counts as its operations, and long data as a request for"
        " each KiB",
        type=values.positive,
        default=defaults.SNAPSHOT_REQUESTS,
        metavar="N",
    )

    # Users and TLS.
    super_digest: str = option(
        "user that has all permissions: name and base64 of the SHA-1 of `name:password`"
        " (zookeeper.DigestAuthenticationProvider.superDigest)",
        type=values.digest,
        metavar="NAME:HASH",
        zoo="DigestAuthenticationProvider.superDigest",
        secret=True,
    )
    tls: ClientTls = field(metadata=group(ClientTls))
    sasl: SaslSettings = field(repr=False)

    @property
    def host(self) -> str:
        """Where clients connect."""
        return self.listen[0]

    @property
    def port(self) -> int:
        """Where clients connect; 0 for any free port."""
        return self.listen[1]

    @property
    def addresses(self) -> dict[str, tuple[str, int] | None]:
        """Where this process listens, by option."""
        return {
            "--listen": self.listen,
            "--secure-listen": self.tls.secure,
            "--peer-listen": self.peer_listen,
            "--admin-listen": self.admin,
        }

    @property
    def proxy_protocol(self) -> ProxyProtocol:
        """Which load balancers name the client that they connect for."""
        return ProxyProtocol(self.proxy_protocol_mode, self.proxy_protocol_from)


OPTIONS = (*options_of(Config), *options_of(SaslOptions))
"""All options of the server."""


def parse(arguments: Sequence[str] | None = None) -> Config:
    """The configuration of a command line. A wrong value is reported on stderr and exits with 2."""
    return parse_with(parser(), arguments)


def parse_with(made: OptionParser, arguments: Sequence[str] | None) -> Config:
    """As `parse`, by a parser that may have more options."""
    given = made.parse_args(arguments)
    found = zoo_cfg.NOTHING
    if given.zoo_cfg:
        try:
            found = zoo_cfg.take(made, given, OPTIONS)
        except OSError as error:
            made.error(f"{given.zoo_cfg}: {error.strerror}")
        except ValueError as error:
            made.error(str(error))
        given = made.parse_args(arguments)
    try:
        return _config(made, given, found)
    except ValueError as error:
        made.error(str(error))


def _config(made: OptionParser, given: Any, found: zoo_cfg.Found) -> Config:
    """Raises ValueError for options that exclude or need each other, and for bad files of users."""
    unknown = unknown_variables(os.environ, (each.dest for each in OPTIONS))
    settings = values_of(Config, given)
    etcd_options.check(settings["etcd_access"], settings["etcd"])
    archive_options.check(settings["archive"])
    if (given.proxy_protocol != proxy_protocol.OFF) != bool(given.proxy_protocol_from):
        raise ValueError(
            "--proxy-protocol accept or require and --proxy-protocol-from must be given together: a PROXY"
            " header from anybody else would forge the client's address"
        )
    if given.peer_advertise is not None and given.peer_listen is None:
        raise ValueError("--peer-advertise needs --peer-listen")
    if given.peer_advertise is not None and not given.peer_advertise[1]:
        raise ValueError("--peer-advertise needs a port")
    low, high = _session_timeouts(given)
    tls: ClientTls = settings["tls"]
    tls_options.check(tls)
    sasl = sasl_options.read(
        SaslOptions(**values_of(SaslOptions, given)), has_x509=bool(tls.cert) and tls.client_auth != "none"
    )
    admin = _admin_address(given, tls)
    derived: Mapping[str, Any] = {
        "min_session_timeout": low,
        "max_session_timeout": high,
        "admin": admin,
        "admin_is_required": given.admin_listen is not None,
        "console": _has_console(given.console, settings, admin),
        "sasl": sasl,
        "secrets_on_command_line": tuple(made.secrets_on_command_line()),
        "unknown_variables": unknown,
        "secret_files": _secret_files(given, sasl),
        "zoo_cfg_ignored": found.ignored,
        "zoo_cfg_unknown": found.unknown,
    }
    config = Config(**{**settings, **derived})
    _refuse_same(config.addresses)
    return config


def _session_timeouts(given: Any) -> tuple[int, int]:
    """The shortest and the longest session timeout, in milliseconds."""
    low = values.milliseconds(given.min_session_timeout, given.tick_time)
    high = values.milliseconds(given.max_session_timeout, given.tick_time)
    if max(low, high) > values.MAX_INT:
        raise ValueError(f"a session timeout of {max(low, high)} ms does not fit into ZooKeeper's protocol")
    if low > high:
        raise ValueError(f"--min-session-timeout {low} is above --max-session-timeout {high}")
    return low, high


def _admin_address(given: Any, tls: ClientTls) -> tuple[str, int] | None:
    """Where the admin HTTP server listens; None for none."""
    wanted: tuple[str, int] | None = given.admin_listen
    if wanted is not None:
        return None if wanted == values.NO_ADMIN else wanted
    others = (given.listen, tls.secure, given.peer_listen)
    is_free = all(each is None or each[1] != _DEFAULT_ADMIN[1] for each in others)
    return _DEFAULT_ADMIN if is_free else None


def _refuse_same(addresses: Mapping[str, tuple[str, int] | None]) -> None:
    """Raises ValueError if two options name the same address."""
    for (one, address), (other, same) in combinations(addresses.items(), 2):
        if address is not None and address == same and address[1] != 0:
            raise ValueError(f"{one} and {other} are both {listening_address(*address)}")


def _secret_files(given: Any, sasl: SaslSettings) -> tuple[tuple[str, str], ...]:
    """The files that hold passwords or keys, each with the option that names it."""
    in_file = options_in(given.config) if given.config else {}
    has_secrets = any(each.name.removeprefix("--") in in_file for each in OPTIONS if each.secret)
    files = {"--config": given.config if has_secrets else ""}
    files |= {each.name: getattr(given, each.dest) for each in OPTIONS if each.secret_file}
    files["--sasl-keytab"] = sasl.keytab  # --jaas-file may name it
    return tuple((name, file) for name, file in files.items() if file)


def _has_console(choice: str, settings: Mapping[str, Any], admin: tuple[str, int] | None) -> bool:
    """Whether there is a console. `choice`: auto, on or off."""
    tls: ClientTls = settings["tls"]
    has_tls, may_write = bool(settings["admin_tls"]), bool(settings["console_write"])
    has_users = bool(settings["console_users"])
    if has_tls and not tls.cert:
        raise ValueError("--admin-tls on needs --tls-cert and --tls-key")
    is_local = admin is not None and is_loopback(admin[0])
    wanted = choice == "on" or has_users or may_write
    if choice == "off" and (has_users or may_write):
        raise ValueError("--console off excludes --console-users and --console-write")
    if wanted and admin is None:
        raise ValueError("the console needs --admin-listen")
    has_logins = has_users or (has_tls and tls.client_auth != "none")
    if wanted and not is_local and not has_logins:
        raise ValueError(
            "--console-users is missing: without it, and without --admin-tls on and certificates of clients,"
            " there is a console only where --admin-listen is on the loopback interface"
        )
    return choice != "off" and (wanted or is_local)


def parser(command: str = "serve") -> OptionParser:
    """The parser of a command that has the server's options."""
    made = OptionParser(prog=f"zketcd {command}", description=_DESCRIPTION, formatter_class=HelpFormatter)
    for table in (Config, SaslOptions):
        add_options(made.add_argument, table)
    return made
