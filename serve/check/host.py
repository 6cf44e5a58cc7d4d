"""Options, files and ports of this host. Blocks."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from proxy.config import Config
from proxy.etcd.embedded import EmbeddedEtcdError, find_binary
from proxy.frontend.listener import bound_socket
from proxy.sasl.gssapi_server import Missing
from proxy.support.addresses import listening_address
from proxy.support.environment import HOST
from proxy.support.files import is_world_readable
from proxy.support.logs import STDERR
from serve.__main__ import certificates_of, prepare
from serve.check.finding import Finding, doubtful, good, wrong


def check_host(config: Config) -> Iterator[Finding]:
    """All findings."""
    yield from _options(config)
    yield from _files(config)
    yield from _ports(config)
    if not config.etcd:
        yield from _embedded(config)


def _options(config: Config) -> Iterator[Finding]:
    yield good("options", "they are valid together")
    for option in config.secrets_on_command_line:
        yield doubtful(option, "every user of this host can read it (ps): put it into the file of --config")
    if config.unknown_variables:
        yield doubtful("environment", f"unknown variables, ignored: {', '.join(config.unknown_variables)}")
    if config.zoo_cfg_unknown:
        yield doubtful(config.zoo_cfg, f"unknown settings, ignored: {', '.join(config.zoo_cfg_unknown)}")


def _files(config: Config) -> Iterator[Finding]:
    try:
        prepared = prepare(config)
    except (OSError, ValueError, Missing) as error:
        yield wrong("files", str(error))
    else:
        if prepared.otel is not None:
            prepared.otel.shutdown()
        yield good("files", "certificates, keys and users can be used")
        now = HOST.clock.time()
        for each in certificates_of(config, prepared.client_tls):
            soon = each.ends_soon(now)
            yield (doubtful if soon else good)(each.option, each.when(now))
    for option, file in config.secret_files:
        if is_world_readable(file):
            yield doubtful(
                option, f"every user of this host can read the secrets in {file}: run chmod o= {file}"
            )
    log = config.audit_log
    if log and log != STDERR:
        if os.path.isdir(log) or not os.access(log if os.path.exists(log) else Path(log).parent, os.W_OK):
            yield wrong("--audit-log", f"{log} cannot be written")
        else:
            yield good("--audit-log", f"{log} can be written")


def _ports(config: Config) -> Iterator[Finding]:
    for option, address in config.addresses.items():
        if address is None:
            continue
        name = listening_address(*address)
        try:
            with bound_socket(*address) as socket:
                socket.listen()
        except OSError as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE:
                yield doubtful(option, f"{name} is in use: by a running zketcd?")
            elif option == "--admin-listen" and not config.admin_is_required:
                yield doubtful(option, f"{error}: zketcd would run without this server")
            else:
                yield wrong(option, str(error))
        else:
            yield good(option, f"{name} is free")


def _embedded(config: Config) -> Iterator[Finding]:
    try:
        binary = find_binary()
    except EmbeddedEtcdError as error:
        yield wrong("embedded etcd", str(error))
    else:
        if binary.trial_only:
            yield doubtful(
                "embedded etcd", f"{binary.version} at {binary.path} is for trials: it can lose data"
            )
        else:
            yield good("embedded etcd", f"{binary.version} at {binary.path}")
    folder = Path(config.data_dir).absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if os.access(existing, os.W_OK | os.X_OK):
        yield good("--data-dir", f"{folder} can be written")
    else:
        yield wrong("--data-dir", f"{folder} cannot be written")
