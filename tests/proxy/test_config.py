"""Every option by command line, environment and file, and what is said of a wrong one."""

import functools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from ipaddress import ip_network
from operator import attrgetter
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from proxy.config import OPTIONS, Config, parse, parse_with, parser
from proxy.options.file import options_in
from proxy.sasl.digest_md5 import secret
from proxy.sasl.options import SaslOptions
from proxy.support.files import LARGEST_OPTIONS
from schema.budgets import Rule
from tests.table import one_by_one

pytestmark = pytest.mark.usefixtures("no_environment")

_ONE_LINE = str(Path(__file__).parent / "__init__.py")
_SUPER = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
# option -> (the field or fields, what is written, what it means)
_OPTIONS: dict[str, tuple[str, str, Any]] = {
    "listen": ("host port", "*:2182", ("", 2182)),
    "etcd": ("etcd", "http://one:2379,two:2379,[::1]:2379", ("http://one:2379", "two:2379", "[::1]:2379")),
    "admin-listen": ("admin admin_is_required", "0.0.0.0:8081", (("0.0.0.0", 8081), True)),
    "peer-listen": ("peer_listen", "0.0.0.0:2191", ("0.0.0.0", 2191)),
    "peer-advertise": ("peer_advertise", "10.0.0.7:2191", ("10.0.0.7", 2191)),
    "admin-tls": ("admin_tls", "on", True),
    "data-dir": ("data_dir", "elsewhere", "elsewhere"),
    "prefix": ("prefix", "/other/tree", "/other/tree"),
    "tick-time": ("tick_time", "500", 500),
    "min-session-timeout": ("min_session_timeout", "100", 100),
    "max-session-timeout": ("max_session_timeout", "90000", 90000),
    "max-client-connections": ("max_client_connections", "0", 0),
    "max-connections": ("max_connections", "900", 900),
    "global-outstanding-limit": ("global_outstanding_limit", "500", 500),
    "max-frame": ("max_frame", "4194304", 4194304),
    "extended-types-enabled": ("extended_types", "false", False),
    "enforce-quota": ("enforce_quota", "true", True),
    "container-check-interval": ("container_check_interval", "1000", 1000),
    "container-max-per-minute": ("container_max_per_minute", "5", 5),
    "container-max-never-used": ("container_max_never_used", "7000", 7000),
    "four-letter-words": ("four_letter_words", "ruok, mntr", frozenset({"srvr", "ruok", "mntr"})),
    "keeper-extensions": ("keeper_extensions", "off", False),
    "availability-zone": ("availability_zone", "zone-1", "zone-1"),
    "read-only-mode": ("read_only_mode", "on", True),
    "log-level": ("log_level", "debug", "DEBUG"),
    "proxy-protocol": ("proxy_protocol.mode", "require", "require"),
    "proxy-protocol-from": (
        "proxy_protocol.balancers",
        "10.0.0.7, 10.1.0.0/16,2001:db8::/32",
        tuple(map(ip_network, ("10.0.0.7/32", "10.1.0.0/16", "2001:db8::/32"))),
    ),
    "audit-log": ("audit_log", "-", "-"),
    "log-format": ("log_format", "json", "json"),
    "slow-request-ms": ("slow_request", "250", 250),
    "top-sample": ("top.sample", "7", 7),
    "top-depth": ("top.depth", "2", 2),
    "top-window": ("top.window", "30", 30),
    "top-log": ("top.log", "300", 300),
    "top-rows": ("top.rows", "5", 5),
    "pause-warn-ms": ("pause_warn", "2000", 2000),
    "zoo-cfg": ("zoo_cfg zoo_cfg_ignored zoo_cfg_unknown", os.devnull, (os.devnull, (), ())),
    "console": ("console", "off", False),
    "console-users": ("console_users", __file__, __file__),
    "console-write": ("console_write", "on", True),
    "archive": ("archive.url", "s3://bucket/tree", "s3://bucket/tree"),
    "archive-keep": ("archive.keep_ms", "2h", 7_200_000),
    "at": ("archive.at", "10m", "10m"),
    "read-only": ("archive.read_only", "all", "all"),
    "etcd-ca": ("etcd_access.ca", __file__, __file__),
    "etcd-cert": ("etcd_access.cert", __file__, __file__),
    "etcd-key": ("etcd_access.key secret_files", __file__, (__file__, (("--etcd-key", __file__),))),
    "etcd-user": ("etcd_access.user", "root", "root"),
    "etcd-password": ("etcd_access.password", "word", "word"),
    "etcd-password-file": (
        "etcd_access.password_file secret_files",
        _ONE_LINE,
        (_ONE_LINE, (("--etcd-password-file", _ONE_LINE),)),
    ),
    "traces": ("traces", "on", True),
    "etcd-transport": ("etcd_access.transport", "grpcio", "grpcio"),
    "proxy-lease": ("proxy_lease", "10", 10),
    "max-staleness": ("max_staleness", "4", 4),
    "standby-within": ("standby_within", "15", 15),
    "etcd-reserve": ("etcd_reserve", "25", 25),
    "budget": ("budget", "/a=5/s,1MB/s,/b=2/s", (Rule("/a", 5, 10**6), Rule("/b", 2, 0))),
    "snapshot-log-bytes": ("snapshot_log_bytes", "1000000", 1000000),
    "snapshot-log-requests": ("snapshot_log_requests", "5000", 5000),
    "super-digest": ("super_digest", _SUPER, _SUPER),
    "tls-cert": ("tls.cert", __file__, __file__),
    "tls-key": ("tls.key", __file__, __file__),
    "tls-key-password": ("tls.key_password", "word", "word"),
    "tls-ca": ("tls.ca", __file__, __file__),
    "tls-client-auth": ("tls.client_auth", "want", "want"),
    "tls-min-version": ("tls.min_version", "1.3", "1.3"),
    "tls-ciphers": ("tls.ciphers", "ECDHE+AESGCM", "ECDHE+AESGCM"),
    "listen-tls": ("tls.listen", "only", "only"),
    "secure-listen": ("tls.secure", "[::]:2281", ("::", 2281)),
    "x509-super-user": ("tls.super_user", "CN=admin,O=Example", "CN=admin,O=Example"),
    "sasl-user": ("sasl.users", "bob:a:b", {"bob": secret("bob", "a:b")}),
    "sasl-keytab": ("sasl.keytab", __file__, __file__),
    "sasl-principal": ("sasl.principal", "zookeeper/h@R", "zookeeper/h@R"),
    "sasl-super-users": ("sasl.super_users", "a,b/c@R", {"a", "b/c@R"}),
    "kerberos-remove-host": ("sasl.naming.remove_host", "true", True),
    "kerberos-remove-realm": ("sasl.naming.remove_realm", "true", True),
    "allow-sasl-failed-clients": ("sasl.allow_failed", "true", True),
    "enforce-auth-schemes": ("sasl.enforced", "digest,ip", ("digest", "ip")),
}
# How the code reads a field of the configuration, or of a group of options.
_READ = re.compile(r"(?=\b(_?config|given|options|settings|access|archive|sasl|tls|top)\.(\w+))")
# Options that are refused one without the other.
_TLS = ("tls-cert", "tls-key", "tls-ca")
_CERTIFICATE = [f"--{name}={__file__}" for name in _TLS]
_PARTNERS = {
    "archive-keep": ("archive",),
    "at": ("archive", "read-only"),
    "read-only": ("archive",),
    "etcd-cert": ("etcd-key",),
    "etcd-key": ("etcd-cert",),
    "etcd-user": ("etcd-password",),
    "etcd-password": ("etcd-user",),
    "etcd-password-file": ("etcd-user",),
    "peer-advertise": ("peer-listen",),
    "proxy-protocol": ("proxy-protocol-from",),
    "proxy-protocol-from": ("proxy-protocol",),
    "sasl-keytab": ("sasl-principal",),
    "sasl-principal": ("sasl-keytab",),
    "sasl-super-users": ("sasl-user",),
    **dict.fromkeys(_TLS, _TLS),
    **dict.fromkeys(
        ("tls-key-password", "tls-ciphers", "listen-tls", "secure-listen", "x509-super-user", "admin-tls"),
        _TLS,
    ),
}


def _given(option: str) -> dict[str, str]:
    """The option, with the one that goes with it."""
    names = (option, *_PARTNERS.get(option, ()))
    return {name: _OPTIONS[name][1] for name in names}


def _found(config: Config, option: str) -> Any:
    names = _OPTIONS[option][0].split()
    values = tuple(attrgetter(name)(config) for name in names)
    return values if len(values) > 1 else values[0]


def test_every_option_is_tried_here() -> None:
    # Those that name files of users are in tests/proxy/sasl/test_options.py.
    assert _OPTIONS.keys() == {each.name.removeprefix("--") for each in OPTIONS} - {
        "config",
        "jaas-file",
        "jaas-section",
        "sasl-users-file",
    }


def test_every_field_is_read() -> None:
    """All other tests pass with an option that has no effect."""
    product = Path(__file__).parents[2]
    files = [
        file for room in ("proxy", "serve", "archive", "console") for file in (product / room).rglob("*.py")
    ]
    reads = {read for file in files for read in _READ.findall(file.read_text())}
    own = set(re.findall(r"\bself\.(\w+)", (product / "proxy" / "config.py").read_text()))
    read = own | {name for reader, name in reads if reader.endswith("config")}
    assert {each.name for each in fields(Config)} - read == {"config_file"}, "which the parser reads"
    tables: list[type[Any]] = [SaslOptions, *_groups(Config)]
    assert {each.name for table in tables for each in fields(table)} <= {name for _, name in reads}


def _groups(table: type[Any]) -> Iterator[type[Any]]:
    for each in fields(table):
        yield from (group for group in each.metadata.values() if isinstance(group, type))


def test_defaults() -> None:
    config = parse([])
    assert (config.host, config.port, config.etcd, config.prefix) == ("127.0.0.1", 2181, (), "/zketcd")
    assert (config.tick_time, config.min_session_timeout, config.max_session_timeout) == (2000, 4000, 40000)
    assert config.max_frame == 0xFFFFF
    assert (config.tls.cert, config.tls.files, config.tls.secure) == ("", (), None)
    fast = parse(["--tick-time", "100"])
    assert (fast.min_session_timeout, fast.max_session_timeout) == (200, 2000)
    tls = parse(_CERTIFICATE).tls
    assert (tls.client_auth, tls.min_version, tls.listen) == ("need", "1.2", "detect")
    assert tls.files == (__file__, __file__, __file__)
    assert parse([*_CERTIFICATE[:2], "--tls-client-auth=none"]).tls.ca == ""


@one_by_one(
    ("arguments", "client", "admin"),
    [
        # The default admin server gives its port to clients; free ports may be asked for twice.
        (["--listen=0.0.0.0:8080"], ("0.0.0.0", 8080), None),
        (["--listen=0.0.0.0:8081"], ("0.0.0.0", 8081), ("127.0.0.1", 8080)),
        (["--listen=[::1]:0", "--admin-listen=[::1]:0"], ("::1", 0), ("::1", 0)),
        # As the chart writes a pod's address, whatever family it has.
        (["--listen=[10.0.0.7]:2181", "--admin-listen=none"], ("10.0.0.7", 2181), None),
    ],
)
def test_addresses(arguments: list[str], client: tuple[str, int], admin: tuple[str, int] | None) -> None:
    config = parse(arguments)
    assert ((config.host, config.port), config.admin) == (client, admin)


def test_the_default_admin_server_gives_its_port_to_each_other_one() -> None:
    others = parse([]).addresses.keys() - {"--admin-listen"}
    assert [parse([*_CERTIFICATE, f"{option}=0.0.0.0:8080"]).admin for option in others] == [None] * len(
        others
    )


# Making a parser takes longer than using it.
_PARSER = parser()


@functools.cache
def _defaults() -> Config:
    return parse([])


@one_by_one("option", _OPTIONS)
def test_each_option_on_the_command_line_in_the_environment_and_in_a_file(
    option: str, tmp_path: Path
) -> None:
    given = _given(option)
    expected = _OPTIONS[option][2]
    line = [f"--{name}={value}" for name, value in given.items()]
    assert _found(parse_with(_PARSER, line), option) == expected
    variables = {f"ZKETCD_{name.upper().replace('-', '_')}": value for name, value in given.items()}
    with mock.patch.dict(os.environ, variables):
        assert _found(parse_with(_PARSER, []), option) == expected
    file = tmp_path / "zketcd.toml"
    file.write_text("\n".join(["[zketcd]", *(f'{name} = "{value}"' for name, value in given.items())]))
    with mock.patch.dict(os.environ, {"ZKETCD_CONFIG": str(file)}):
        assert _found(parse_with(_PARSER, []), option) == expected
    assert _found(_defaults(), option) != expected


def test_numbers_in_a_file_need_no_quotes(tmp_path: Path) -> None:
    file = tmp_path / "zketcd.toml"
    file.write_text("[zketcd]\ntick-time = 700\nmax-client-connections = 5\nextended-types-enabled = false\n")
    config = parse(["--config", str(file)])
    assert (config.tick_time, config.max_client_connections) == (700, 5)
    assert config.extended_types is False


def test_the_command_line_comes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "zketcd.toml"
    file.write_text('[zketcd]\nprefix = "/file"\ntick-time = 1\nlog-level = "error"\n')
    with mock.patch.dict(os.environ, {"ZKETCD_PREFIX": "/environment", "ZKETCD_TICK_TIME": "2"}):
        config = parse(["--config", str(file), "--prefix", "/line"])
    assert (config.prefix, config.tick_time, config.log_level) == ("/line", 2, "ERROR")


_WRONG = {
    "etcd-ca": ["no such file"],
    "etcd-key": ["no such file"],
    "data-dir": ["", __file__],
    "listen": ["2181", "host:port", "host:65536", "host:-1", "host:\u00b2"],
    "etcd": [
        "",
        "http://one:2379,,",
        "ftp://one:2379",
        "http://one:2379/path",
        "http://one:port",
        "unix://a",
        "unix:///",
    ],
    "prefix": ["", "/", "/a/", "/a//b"],
    "tick-time": ["0", "-5", "2s", "2147483648", "9" * 5000, "\u00b2"],
    "min-session-timeout": ["soon"],
    "max-session-timeout": ["1.5"],
    "max-client-connections": ["-1", "many"],
    "max-connections": ["-1", "\u0663"],
    "global-outstanding-limit": ["0"],
    "tls-cert": ["no such file"],
    "tls-client-auth": ["maybe"],
    "tls-min-version": ["1.1"],
    "listen-tls": ["yes"],
    "secure-listen": ["2281"],
    "x509-super-user": ["admin"],
    "proxy-protocol": ["perhaps"],
    "proxy-protocol-from": [
        *("10.0.0.1/8", "balancer.example.org", "10.0.0.256", "::ffff:10.0.0.1", "::ffff:10.0.0.0/104")
    ],
    "max-frame": ["0", "10", "1M"],
    "extended-types-enabled": ["perhaps"],
    "enforce-quota": ["1"],
    "container-check-interval": ["0"],
    "container-max-per-minute": ["0"],
    "container-max-never-used": ["-1"],
    "log-level": ["loud"],
    "etcd-transport": ["carrier-pigeon"],
    "proxy-lease": ["1", "61", "5s"],
    "max-staleness": ["0"],
    "standby-within": ["4", "-1", "15s"],
    "etcd-reserve": ["91", "-1", "10%"],
    "budget": ["/a", "a=5/s", "/a=5"],
    "snapshot-log-bytes": ["64M"],
    "snapshot-log-requests": ["0"],
    "console": ["maybe"],
    "console-users": ["no such file"],
    "sasl-keytab": ["/no/such"],
    "sasl-principal": ["zookeeper"],
    "allow-sasl-failed-clients": ["maybe"],
}


@one_by_one("option", _WRONG)
def test_a_wrong_value_is_named_with_its_option(option: str, complaint: Callable[..., str]) -> None:
    for value in _WRONG[option]:
        said = complaint(f"--{option}={value}")
        assert f"argument --{option}" in said
        assert "invalid _" not in said  # argparse's words for a fault of ours
        assert repr(value.split(",")[1] if "," in value else value).lower() in said.lower()


_ALL = "--admin-listen=0.0.0.0:8081"
_NO_ADMIN = "--admin-listen=none"
_USERS = f"--console-users={__file__}"


@one_by_one(
    ("arguments", "said"),
    [
        (["--listen=a:1", "--admin-listen=a:1"], "--listen and --admin-listen are both a:1"),
        (["--listen=a:1", "--secure-listen=a:1"], "--listen and --secure-listen are both a:1"),
        (["--admin-listen=a:1", "--secure-listen=a:1"], "--secure-listen and --admin-listen are both a:1"),
        (["--listen=a:1", "--peer-listen=a:1"], "--listen and --peer-listen are both a:1"),
        (["--peer-listen=a:1", "--peer-advertise=a:0"], "--peer-advertise needs a port"),
        (["--peer-advertise=a:1"], "--peer-advertise needs --peer-listen"),
        (["--config", "/no/such.toml"], "/no/such.toml"),
        (["--etcd=http://one:2379,https://two:2379"], "argument --etcd: some endpoints are https:// and"),
        (["--etcd=https://one:2379,two:2379"], "argument --etcd: some endpoints are https:// and"),
        (["--min-session-timeout=5000", "--max-session-timeout=4000"], "5000.*4000"),
        (["--tick-time=2000000000"], "40000000000 ms"),  # more than fits into the reply to a client
        # A console that anybody could use.
        ([_ALL, "--console=on"], "--console-users is missing"),
        ([_ALL, "--console-write=on"], "--console-users is missing"),
        ([_NO_ADMIN, "--console=on"], "the console needs --admin-listen"),
        ([_NO_ADMIN, _USERS], "the console needs --admin-listen"),
        (["--console=off", "--console-write"], "--console off excludes"),
        # Whom clients may be.
        (["--tls-ca="], "--tls-client-auth need needs --tls-ca"),
        (["--tls-ca=", "--tls-client-auth=want"], "--tls-client-auth want needs --tls-ca"),
        (
            ["--tls-client-auth=none", "--x509-super-user=CN=a"],
            "--x509-super-user needs clients with certificates",
        ),
        (["--tls-client-auth=none", "--enforce-auth-schemes=x509"], "scheme 'x509' is not available: give"),
        (["--enforce-auth-schemes=sasl"], "scheme 'sasl' is not available: give --jaas-file"),
        (["--enforce-auth-schemes=nonsense"], "scheme 'nonsense' is not available"),
        (["--enforce-auth-schemes=none,ip"], "none goes with no other scheme"),
        (["--sasl-super-users=root"], "--sasl-super-users needs clients that can authenticate"),
    ],
)
def test_values_that_contradict(arguments: list[str], said: str, complaint: Callable[..., str]) -> None:
    assert re.search(said, complaint(*_CERTIFICATE, *arguments))


@one_by_one("option", sorted(_PARTNERS))
def test_options_that_go_together(option: str, complaint: Callable[..., str]) -> None:
    said = complaint(f"--{option}", _OPTIONS[option][1])
    assert f"--{option}" in said
    assert any(f"--{partner}" in said for partner in _PARTNERS[option] if partner != option)


def test_zookeepers_names_of_limits(tmp_path: Path) -> None:
    file = tmp_path / "zketcd.toml"
    file.write_text("[zketcd]\nmax-client-cnxns = 7\nmax-cnxns = 8\njute-maxbuffer = 9000\n")
    line = ["--max-client-cnxns", "7", "--max-cnxns", "8", "--jute-maxbuffer", "9000"]
    for config in (parse(line), parse(["--config", str(file)])):
        assert (config.max_client_connections, config.max_connections, config.max_frame) == (7, 8, 9000)


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse(["--help"])
    assert exit_.value.code == 0
    said = capsys.readouterr().out
    assert [option for option in _OPTIONS if f"--{option}" not in said] == []


def test_zoo_cfg_comes_after_all_other_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zoo = tmp_path / "zoo.cfg"
    zoo.write_text(
        "clientPort=1\ntickTime=1000\nmaxCnxns=1\nmaxClientCnxns=1\nglobalOutstandingLimit=1\nfoo=1\ndataDir=/x"
    )
    toml = tmp_path / "zketcd.toml"
    toml.write_text("[zketcd]\nmax-connections = 2\n")
    monkeypatch.setenv("ZKETCD_MAX_CLIENT_CONNECTIONS", "3")
    given = ["--zoo-cfg", str(zoo), "--config", str(toml), "--global-outstanding-limit", "4"]
    config = parse(given)
    assert (config.host, config.port, config.tick_time) == ("", 1, 1000)
    assert config.min_session_timeout == 2000
    assert config.max_connections == 2
    assert config.max_client_connections == 3
    assert config.global_outstanding_limit == 4
    assert (config.zoo_cfg_ignored, config.zoo_cfg_unknown) == (("dataDir",), ("foo",))


@one_by_one(
    ("option", "content", "said"),
    [
        ("--zoo-cfg", "tickTime=0", "line 1: tickTime: '0' is not a whole number from 1 up"),
        ("--zoo-cfg", "clientPort=x", "line 1: clientPort: ':x' is not HOST:PORT"),
        ("--zoo-cfg", "ssl.clientAuth=no", "line 1: ssl.clientAuth: 'no' is none of none, want, need"),
        ("--zoo-cfg", "4lw.commands.whitelist=frob", "line 1: 4lw.commands.whitelist: "),
        ("--zoo-cfg", "skipACL=yes", "line 1: skipACL=yes: zketcd always checks ACLs"),
        ("--zoo-cfg", "ssl.keyStore.location=/no.pem", "location: '/no.pem' is not a readable file"),
        # What is not in the table is not passed over.
        ("--config", 'tick-time = 1\n[other]\nprefix = "/x"\n', "a table [zketcd]: tick-time, other"),
        ("--config", "zketcd = 5\n", "options belong into a table [zketcd]: zketcd"),
        ("--config", "[[zketcd]]\ntick-time = 5\n", "options belong into a table [zketcd]: zketcd"),
    ],
)
def test_a_bad_file_is_one_line(
    option: str, content: str, said: str, tmp_path: Path, complaint: Callable[..., str]
) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    line = complaint(option, str(file))
    assert str(file) in line
    assert said in line


@one_by_one(
    ("arguments", "console"),
    [
        ([], True),
        *(([f"--admin-listen={host}:8081"], True) for host in ("127.0.0.1", "[::1]", "localhost")),
        *(([f"--admin-listen={host}:8081"], False) for host in ("0.0.0.0", "", "*", "[::]")),
        ([_NO_ADMIN], False),
        ([_ALL, _USERS], True),
        ([_ALL, "--console=on", _USERS], True),
        (["--console=off"], False),
        (["--console-write"], True),
    ],
)
def test_there_is_a_console_where_nobody_else_reaches_it_or_its_users_log_in(
    arguments: list[str], console: bool
) -> None:
    assert parse(arguments).console is console


def test_a_file_may_begin_with_the_mark_of_utf_8(tmp_path: Path) -> None:
    """Editors of Windows write it."""
    file = tmp_path / "zketcd.toml"
    file.write_bytes(b"\xef\xbb\xbf[zketcd]\r\ntick-time = 1000\r\n")
    assert parse(["--config", str(file)]).tick_time == 1000
    assert options_in(str(file)) == {"tick-time": 1000}


@pytest.mark.parametrize("option", ["--config", "--zoo-cfg", "--sasl-users-file", "--jaas-file"])
def test_a_file_without_an_end_is_not_read_to_its_end(
    option: str, tmp_path: Path, complaint: Callable[..., str]
) -> None:
    file = tmp_path / "zero"  # as /dev/zero
    file.touch()
    os.truncate(file, LARGEST_OPTIONS + 1)
    assert f"{file}: it has more than {LARGEST_OPTIONS} bytes" in complaint(option, str(file))


def test_a_file_may_be_a_pipe_of_the_shell() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"[zketcd]\ntick-time = 1000\n")
    os.close(writer)
    assert parse(["--config", f"/dev/fd/{reader}"]).tick_time == 1000
    os.close(reader)
