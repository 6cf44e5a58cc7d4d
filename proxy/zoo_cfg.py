"""ZooKeeper's zoo.cfg as options of this server (`--zoo-cfg`).

Options say which setting means the same as each; `options.zoo_keys` has all others. Here: reading the file as
Java does (java.util.Properties), and settings that say something only together.
"""

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from proxy.options.parser import OptionParser, line_of
from proxy.options.table import Option
from proxy.options.zoo_keys import KEYS, Combined, Refuse, meaning
from proxy.sasl.options import SOURCES, is_source_given
from proxy.support.addresses import is_any, socket_address
from proxy.support.files import bounded
from proxy.support.usage import nearest

# All addresses. Java takes IPv4's wildcard address for that of both families.
_ANY = ""
_PATH_STATS = "pathStats."
_TRIMMED = "".join(map(chr, range(0x21)))  # by String.trim
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Found(NamedTuple):
    """What a file says."""

    options: Mapping[str, str]  # texts of options, by their names in the namespace
    origin: Mapping[str, str]  # the setting behind each option
    ignored: tuple[str, ...]  # settings without a meaning here
    unknown: tuple[str, ...]  # settings that ZooKeeper 3.9 does not have, each with a similar one that it has


NOTHING = Found({}, {}, (), ())


def take(parser: OptionParser, given: Any, table: Iterable[Option]) -> Found:
    """Make the settings of the file that `given` names the parser's defaults.

    Raises OSError, and ValueError with the file and the line.
    """
    # Java reads such files as Latin-1 (java.util.Properties.load).
    text = ""
    try:
        with open(given.zoo_cfg, encoding="latin-1") as stream:
            text = bounded(stream)
        found = _checked(text, parser, given, table)
    except ValueError as error:
        # The message begins with the setting.
        line = line_of(text, re.split("[:= ]", str(error), maxsplit=1)[0])
        raise ValueError(f"{given.zoo_cfg}{f', line {line}' if line else ''}: {error}") from error
    parser.set_defaults(**found.options)
    return found


def _checked(text: str, parser: OptionParser, given: Any, table: Iterable[Option]) -> Found:
    """What the file says, with texts that its options accept. Raises ValueError."""
    actions: dict[str, Any] = {action.dest: action for action in parser._actions}

    def is_given(option: str) -> bool:
        default = parser.get_default(option)
        action = actions[option]
        if isinstance(default, str) and action.type is not None:
            default = action.type(default)
        return bool(getattr(given, option) != default)

    found = read(text, table, is_given)
    for option, value in found.options.items():
        action = actions[option]
        key = found.origin[option]
        try:
            meant = action.type(value) if action.type is not None else value
        except (ArgumentTypeError, ValueError) as error:
            raise ValueError(f"{key}: {error}") from error
        if action.choices is not None and meant not in action.choices:
            raise ValueError(f"{key}: {value!r} is none of {', '.join(action.choices)}")
    return found


def read(text: str, table: Iterable[Option], is_given: Callable[[str], bool]) -> Found:
    """The options of a file, of all those in `table`.

    `is_given`: whether an option has a value from elsewhere, which takes precedence.

    Raises ValueError, with the setting and the reason, for what would be dangerous to ignore.
    """
    settings = properties(text)
    same = {key: (each.dest, convert) for each in table for key, convert in each.zoo.items()}
    options: dict[str, str] = {}
    origin: dict[str, str] = {}
    ignored: list[str] = []
    unknown: list[str] = []
    for key, value in settings.items():
        if key in same:
            option, convert = same[key]
            try:
                converted = convert(value)
            except ArgumentTypeError as error:
                raise ValueError(f"{key}: {error}") from error
            if converted is not None:
                options[option] = converted
                origin[option] = key
            continue
        match meaning(key):
            case Refuse(reason, unless, secret):
                why = reason(value)
                if why and not (unless and is_given(unless)):
                    raise ValueError(f"{key}: {why}" if secret else f"{key}={value}: {why}")
            case Combined():
                pass
            case None:
                unknown.append(f"{key}{nearest(key, {*KEYS, *same})}")
            case _:
                ignored.append(key)
    combined = (
        _addresses(settings, is_given),
        _stores(settings, is_given),
        _identities(settings, is_given),
        _path_stats(settings),
    )
    for option, (key, value) in (pair for part in combined for pair in part.items()):
        options[option] = value
        origin[option] = key
    return Found(options, origin, tuple(ignored), tuple(unknown))


def properties(text: str) -> dict[str, str]:
    """The settings of a file in the form of java.util.Properties. The last of two equal keys counts.

    `text`: its lines end with line feeds (`read_text` translates others). Raises ValueError for a bad escape.
    """
    found: dict[str, str] = {}
    # Not splitlines, nor `\s`: Java takes NEL and others for characters, and bytes of UTF-8 look like them.
    lines = iter(text.split("\n"))
    for line in lines:
        logical = line.lstrip(" \t\f")
        if not logical or logical[0] in "#!":
            continue
        while _continues(logical):
            logical = logical[:-1] + next(lines, "").lstrip(" \t\f")
        # The key ends at the first separator that is not escaped.
        parts = re.fullmatch(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", logical, re.DOTALL)
        assert parts is not None
        key = parts[1]
        try:
            # ZooKeeper trims both (QuorumPeerConfig.parseProperties).
            found[_unescaped(key).strip(_TRIMMED)] = _unescaped(parts[2]).strip(_TRIMMED)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error
    return found


def _continues(line: str) -> bool:
    """Whether the line ends with a backslash that is not itself escaped."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    """Raises ValueError."""

    def one(found: re.Match[str]) -> str:
        if not found[1].startswith("u"):
            return _ESCAPES.get(found[1], found[1])
        if not re.fullmatch("u[0-9a-fA-F]{4}", found[1]):
            raise ValueError(f"{found[0]} is no character")
        return chr(int(found[1][1:], 16))

    made = re.sub(r"\\(u.{0,4}|.)", one, text)
    return made.encode("utf-16", "surrogatepass").decode(
        "utf-16", "replace"
    )  # a character may have two escapes


def _addresses(settings: Mapping[str, str], is_given: Callable[[str], bool]) -> dict[str, tuple[str, str]]:
    """Where to listen: options, each with its setting and text."""
    made: dict[str, tuple[str, str]] = {}
    plain = settings.get("clientPort", "")
    secure = settings.get("secureClientPort", "")
    host = settings.get("clientPortAddress", _ANY)
    key = "clientPort"
    if not plain and not secure:
        ports = {found[2]: found[1] or _ANY for found in _client_addresses(settings)}
        if len(ports) == 1:
            [(plain, host)] = ports.items()
            key = "server.N"
        elif not is_given("listen") and (ports or "dynamicConfigFile" in settings):
            raise ValueError("there is no clientPort: say with --listen which port of this ensemble is meant")
    if plain:
        made["listen"] = (key, _joined(host, plain))
        if secure:
            secure_host = settings.get("secureClientPortAddress", _ANY)
            made["secure_listen"] = ("secureClientPort", _joined(secure_host, secure))
        unified = settings.get("client.portUnification", "false").lower() == "true"
        if not unified and "ssl.keyStore.location" in settings:
            made["listen_tls"] = ("client.portUnification", "off")
    elif secure:
        host = settings.get("secureClientPortAddress", _ANY)
        made["listen"] = ("secureClientPort", _joined(host, secure))
        made["listen_tls"] = ("secureClientPort", "only")
    if settings.get("admin.enableServer", "true").lower() == "false":
        made["admin_listen"] = ("admin.enableServer", "none")
    elif "admin.serverPort" in settings or "admin.serverAddress" in settings:
        address = _joined(settings.get("admin.serverAddress", _ANY), settings.get("admin.serverPort", "8080"))
        made["admin_listen"] = ("admin.serverPort", address)
    return made


def _client_addresses(settings: Mapping[str, str]) -> list[re.Match[str]]:
    """What follows the semicolon of `server.N=host:port:port;[address:]port`."""
    servers = [value for key, value in settings.items() if key.startswith("server.")]
    found = [re.search(r";(?:(.*):)?(\d+)$", value) for value in servers]
    return [each for each in found if each]


def _joined(host: str, port: str) -> str:
    """HOST:PORT for an option."""
    bare = host.strip("[]")
    return socket_address(_ANY if is_any(bare) else bare, port)


def _stores(settings: Mapping[str, str], is_given: Callable[[str], bool]) -> dict[str, tuple[str, str]]:
    """The files of TLS, which ZooKeeper calls stores. One of type PEM has the key and the certificates."""
    made: dict[str, tuple[str, str]] = {}
    for store, options in {"keyStore": ("tls_cert", "tls_key"), "trustStore": ("tls_ca",)}.items():
        key = f"ssl.{store}.location"
        path = settings.get(key, "")
        if not path or is_given(options[0]):
            continue
        # Without a type Java goes by the name.
        if settings.get(f"ssl.{store}.type", "").upper() != "PEM" and not path.endswith(".pem"):
            wanted = " and ".join(f"--{option.replace('_', '-')}" for option in options)
            raise ValueError(
                f"{key}={path}: only PEM files are read. Convert it with keytool or openssl pkcs12, and give"
                f" {wanted}"
            )
        for option in options:
            made[option] = (key, path)
    return made


def _identities(settings: Mapping[str, str], is_given: Callable[[str], bool]) -> dict[str, tuple[str, str]]:
    """Which clients are served, and which SASL users may do everything (AuthenticationHelper)."""
    made: dict[str, tuple[str, str]] = {}
    for key, value in settings.items():
        if (
            key.startswith("authProvider.")
            and value.endswith(".SASLAuthenticationProvider")
            and not is_source_given(is_given)
        ):
            raise ValueError(f"{key}={value}: no client could authenticate by SASL: give {SOURCES}")
    schemes = settings.get("enforce.auth.schemes", "")
    enforced = ""
    if settings.get("sessionRequireClientSASLAuth", "").lower() == "true":
        enforced = "sasl"
        made["enforce_auth_schemes"] = ("sessionRequireClientSASLAuth", enforced)
    elif settings.get("enforce.auth.enabled", "").lower() == "true":
        if not schemes:
            raise ValueError("enforce.auth.enabled=true: enforce.auth.schemes does not say by what")
        enforced = schemes
        made["enforce_auth_schemes"] = ("enforce.auth.schemes", enforced)
    wanted = settings.get("requireClientAuthScheme", "")
    if wanted and wanted not in enforced.split(",") and not is_given("enforce_auth_schemes"):
        raise ValueError(
            f"requireClientAuthScheme={wanted}: ZooKeeper 3.9 does not read this setting, and serves clients"
            f" without {wanted} too. Say what is meant: --enforce-auth-schemes {wanted} refuses them,"
            " --enforce-auth-schemes none serves them"
        )
    super_users = [
        value for key, value in settings.items() if key == "superUser" or key.startswith("superUser.")
    ]
    if super_users:
        made["sasl_super_users"] = ("superUser", ",".join(super_users))
    return made


def _path_stats(settings: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """How requests are sampled (RequestPathMetricsCollector), which ZooKeeper does only if it is enabled."""
    enabled = f"{_PATH_STATS}enabled"
    if enabled not in settings:
        return {}
    if settings[enabled].lower() != "true":
        return {"top_sample": (enabled, "0")}
    made = {"top_log": (f"{_PATH_STATS}delay", str(60 * _number(settings, "delay", 5)))}
    if (rate := f"{_PATH_STATS}sampleRate") in settings:
        try:
            share = float(settings[rate])
            made["top_sample"] = (rate, str(max(1, round(1 / share))) if share > 0 else "0")
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{rate}: {error}") from error
    if (depth := f"{_PATH_STATS}maxDepth") in settings:
        made["top_depth"] = (depth, settings[depth])
    if (rows := f"{_PATH_STATS}topPathMax") in settings:
        made["top_rows"] = (rows, settings[rows])
    slots = [key for key in ("slotDuration", "slotCapacity") if f"{_PATH_STATS}{key}" in settings]
    if slots:
        window = _number(settings, "slotDuration", 15) * _number(settings, "slotCapacity", 60)
        made["top_window"] = (f"{_PATH_STATS}{slots[0]}", str(window))
    return made


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    """One of the numbers of pathStats. Raises ValueError."""
    key = f"{_PATH_STATS}{name}"
    try:
        return int(settings[key], 0) if key in settings else default
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error
