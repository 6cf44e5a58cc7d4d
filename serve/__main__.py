"""`python -m serve`: reads the configuration, starts an etcd if none is given, serves until a signal."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import uvloop

from proxy.base_server import BaseServer
from proxy.config import Config, parse, parser
from proxy.etcd.access import Access
from proxy.etcd.embedded import EmbeddedEtcd, EmbeddedEtcdError
from proxy.etcd.failures import for_operator
from proxy.etcd.model import EtcdError
from proxy.etcd.rpc import connector
from proxy.etcd.tls import Tls
from proxy.frontend import certificate_ends
from proxy.frontend.certificate_ends import Certificate, CertificateEnds
from proxy.frontend.certificates import TlsContext
from proxy.frontend.listener import bound_socket
from proxy.handover import supervisor
from proxy.handover.channel import Channel, HandoverError, inherited_ports
from proxy.handover.control import Control
from proxy.handover.receiver import take
from proxy.handover.upgrade import tell_old_process, until_ended
from proxy.home import home_of, numbers_of, peer_port_of
from proxy.log.record import TreeNotServable, TreeSealed
from proxy.log.upkeep.snapshots import run_process
from proxy.past import PastServer
from proxy.sasl.gssapi_server import Missing
from proxy.sasl.login import Login
from proxy.server import Server
from proxy.state.machine import Machine
from proxy.support import descriptors, logs
from proxy.support.addresses import listening_address, socket_address
from proxy.support.environment import HOST, clock_ms
from proxy.support.files import is_world_readable
from proxy.support.last_resort import take_charge
from proxy.support.libraries import how_to_add
from proxy.support.memory import use_huge_pages
from proxy.support.pauses import watch_pauses
from proxy.support.readiness import READY, STOPPING, notify, report_alive, watchdog_interval
from proxy.support.stdout import guarded, is_writable
from proxy.support.tasks import Tasks
from proxy.traces.span import Tracer
from proxy.version import RELEASE
from proxy.watchdog import Watchdog, WatchdogThread, limit_of
from schema.errors import BadValue
from serve.archiving import Archiving

if TYPE_CHECKING:
    from archive.files.moment import Moment
    from proxy.traces.otel import OtelTracer
    from serve.admin_port import AdminSettings

__all__ = ["main", "parser"]

log = logging.getLogger("zketcd")

# SIGHUP is what operators send for a new configuration: here a new process reads it.
_UPGRADING = (signal.SIGUSR2, signal.SIGHUP)

Listeners: TypeAlias = dict[str, socket.socket]  # "main", "secure", "peer", "admin"


def main(arguments: Sequence[str] | None = None, _command: str = "serve") -> int:
    """Run until a signal; the exit code of the process.

    It is 0 after a drain, 2 for wrong usage, and 1 for a failure, also of what the options name: a port, a
    file or a directory may be usable at the next start. One that ends itself has the code of `last_resort`.
    """
    config = parse(arguments)
    logs.configure(config.log_level, config.log_format)
    logging.getLogger("hpack").setLevel(logging.INFO)  # else each header of etcd's has lines of its own
    if config.zoo_cfg_ignored:
        log.info("%s: without a meaning here: %s", config.zoo_cfg, ", ".join(config.zoo_cfg_ignored))
    if config.zoo_cfg_unknown:
        log.warning("%s: unknown settings, ignored: %s", config.zoo_cfg, ", ".join(config.zoo_cfg_unknown))
    for option in config.secrets_on_command_line:
        log.warning(
            "every user of this host can read %s on the command line (ps): set ZKETCD_%s in the environment,"
            " or put it into the file of --config",
            option,
            option.removeprefix("--").replace("-", "_").upper(),
        )
    if config.unknown_variables:
        log.warning("unknown environment variables, ignored: %s", ", ".join(config.unknown_variables))
    try:
        prepared = prepare(config)
    except (OSError, ValueError, Missing) as error:
        logs.say(f"zketcd: {error}")
        return 2 if isinstance(error, WrongUsage) else 1
    for option, file in config.secret_files:
        if is_world_readable(file):
            log.warning(
                "every user of this host can read the secrets in %s (%s): run chmod o= %s", file, option, file
            )
    with _files_for_the_group(), ExitStack() as ending:
        try:
            ending.enter_context(logs.audit_to(config.audit_log, config.log_format))
        except OSError as error:
            logs.say(f"zketcd: --audit-log {config.audit_log}: {error.strerror}")
            return 1
        code = _with_ports(config, prepared)
    if prepared.otel is not None:
        prepared.otel.shutdown()
    return code


@contextmanager
def _files_for_the_group() -> Iterator[None]:
    """What is written has data that ACLs protect: no other user may read it. A stricter umask stays."""
    former = os.umask(0o077)
    os.umask(former | 0o027)
    try:
        yield
    finally:
        os.umask(former)


class WrongUsage(ValueError):
    """The value of an option has no meaning: no later start can use it."""


class Prepared(NamedTuple):
    """What is made of files that the options name. That blocks, so it is done before the loop runs."""

    client_tls: TlsContext | None
    login: Login | None  # by SASL
    etcd_tls: Tls
    admin: "AdminSettings | None"
    otel: "OtelTracer | None"  # what sends spans

    @property
    def tracer(self) -> Tracer | None:
        """As a server takes it."""
        return None if self.otel is None else Tracer(self.otel.decide, self.otel.record)


def prepare(config: Config) -> Prepared:
    """Raises OSError, ValueError or Missing for files and settings that cannot be used; blocks."""
    if config.archive.at:
        _moment(config)
    connector(config.etcd_access.transport)
    return Prepared(
        TlsContext(config.tls) if config.tls.cert else None,
        Login(config.sasl) if config.sasl.is_on else None,
        _access(config, ()).tls(),
        _admin_settings(config) if config.admin else None,
        _tracer(config) if config.traces else None,
    )


def certificates_of(config: Config, client_tls: TlsContext | None) -> list[Certificate]:
    """When the certificates of clients and of etcd end, as they are now. Blocks."""
    access = config.etcd_access
    files = {"--etcd-cert": access.cert, "--etcd-ca": access.ca}
    of_clients = [] if client_tls is None else client_tls.certificates
    return [*of_clients, *certificate_ends.read(files, HOST.clock.time())]


def _tracer(config: Config) -> "OtelTracer | None":
    """What sends spans. Raises ValueError if it is not installed, or for a bad variable."""
    # Else each of the SDK's requests has lines of its own.
    logging.getLogger("urllib3").setLevel(logging.INFO)
    try:
        from proxy.traces import otel
    except ImportError as error:
        raise ValueError(f"--traces on: {error}: {how_to_add('otel')}") from None
    return otel.from_environment(listening_address(config.host, config.port), RELEASE)


def _admin_settings(config: Config) -> "AdminSettings":
    """What the admin port needs. Raises ValueError for bad files."""
    # Half of the CPU time that the start of the process takes is for libraries of this port.
    from serve.admin_port import admin_settings

    return admin_settings(config)


def _with_ports(config: Config, prepared: Prepared) -> int:
    """Hold the ports and run the loop until a signal; the exit code."""
    listeners: Listeners = {}
    try:
        channel = Channel.inherited()
    except HandoverError as error:
        logs.say(f"zketcd: {error}")
        return 2
    try:
        if channel is None:
            # First of all: without the port there is no need to start an etcd and load a tree.
            try:
                _bind(config, listeners)
            except OSError as error:
                logs.say(f"zketcd: {error}")
                return 1
        return _run_loop(config, prepared, listeners, channel)
    finally:
        for listener in listeners.values():
            listener.close()


def _bind(config: Config, listeners: Listeners) -> None:
    """Hold all ports. Raises OSError that names the address."""
    listeners["main"] = bound_socket(config.host, config.port)
    if config.tls.secure:
        listeners["secure"] = bound_socket(*config.tls.secure)
    _bind_for_peers(config, listeners)
    if (admin := _admin_socket(config)) is not None:
        listeners["admin"] = admin


def _bind_for_peers(config: Config, listeners: Listeners) -> None:
    """Hold the port for other proxies, unless it is held already. Raises OSError that names the address."""
    if config.peer_listen is not None and "peer" not in listeners and not config.archive.read_only:
        listeners["peer"] = bound_socket(*config.peer_listen)


def _run_loop(config: Config, prepared: Prepared, listeners: Listeners, channel: Channel | None) -> int:
    """Run the loop until a signal; the exit code. `channel`: to the process to take over from, if any."""
    shares = descriptors.raised()
    if shares.warning:
        log.warning("%s", shares.warning)
    moved = use_huge_pages()
    log.debug("%d MiB are in huge pages", moved >> 20)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            if config.archive.read_only:
                runner.run(_run_past(config, prepared, listeners))
                return 0
            successor = runner.run(_run(config, prepared, listeners, channel))
    except (
        EmbeddedEtcdError, EtcdError, TreeNotServable, BadValue, HandoverError, OSError, ValueError
    ) as error:  # fmt: skip
        logs.say(f"zketcd: {for_operator(error, config.prefix)}")
        return 1
    if successor and channel is None and supervisor.is_needed():
        logs.finish()
        supervisor.become()
    return 0


def _admin_socket(config: Config) -> socket.socket | None:
    """The socket of the admin HTTP server; None without one, or if its default port is taken."""
    if config.admin is None:
        return None
    host, port = config.admin
    listener = None
    try:
        listener = bound_socket(host, port)
        listener.listen()  # at once: two that are bound but do not listen would not notice each other
    except OSError as error:
        if listener is not None:
            listener.close()
        if config.admin_is_required:
            raise
        log.warning("no admin HTTP server: %s; --admin-listen gives it another address", error)
        return None
    return listener


async def _run_past(config: Config, prepared: Prepared, listeners: Listeners) -> None:
    """Serve a moment of an archive until a signal."""
    loop = asyncio.get_running_loop()
    stopped = _stopped_by_signals(loop)
    for signum in _UPGRADING:
        loop.add_signal_handler(signum, log.error, "no upgrade: the past is served: restart instead")
    async with AsyncExitStack() as stack:
        server = PastServer(config, prepared.client_tls, prepared.login, prepared.tracer)
        await _start_admin(prepared, server, listeners, stack, _tree_access(config, ()))
        _look_after(config, prepared, server, stack)
        load = partial(asyncio.to_thread, _past, config)
        await server.start(load, listeners["main"], listeners.get("secure"))
        _report_ready(
            f"serving a moment of {config.archive.url} on {listening_address(config.host, server.port)},"
            f" read-only, zxid 0x{server.machine.zxid:x}, {len(server.machine.tree.nodes)} znodes",
            listeners,
        )
        await stopped.wait()
        notify(STOPPING)
        await server.stop()


def _moment(config: Config) -> "Moment":
    """The moment that --at names. Raises WrongUsage."""
    from archive.files.moment import moment

    try:
        return moment(config.archive.at or "now", clock_ms())
    except ValueError as error:
        raise WrongUsage(f"--at: {error}") from error


def _past(config: Config) -> Machine:
    """The state of a moment. Raises ValueError; blocks."""
    from archive.files.catalog import ArchiveError
    from archive.files.store import existing
    from archive.past.state import state_at

    try:
        return state_at(existing(config.archive.url), _moment(config))
    except ArchiveError as error:
        raise ValueError(str(error)) from error


async def _run(config: Config, prepared: Prepared, listeners: Listeners, channel: Channel | None) -> int:
    """Start all parts, serve until a signal or a failure, then drain; the process that took over, or 0."""
    loop = asyncio.get_running_loop()
    stopped = _stopped_by_signals(loop)
    control = _controlled_by_signals(config, loop, stopped)
    async with AsyncExitStack() as stack:
        embedded = None if config.etcd else await stack.enter_async_context(EmbeddedEtcd(config.data_dir))
        endpoints = config.etcd if embedded is None else (embedded.endpoint,)
        access, tree_access = _access(config, endpoints), _tree_access(config, endpoints)
        ports = numbers_of(listeners) if channel is None else inherited_ports()
        server = _new_server(config, prepared, access, ports, stack)
        admin = await stack.enter_async_context(AsyncExitStack())
        await _start_admin(prepared, server, listeners, admin, tree_access)
        gc.disable()  # nothing that a load creates is garbage, and collecting takes a third of its time
        tasks = _look_after(config, prepared, server, stack)
        report_serving = partial(_report_serving, config, server, endpoints, listeners)
        main, secure = listeners.get("main"), listeners.get("secure")
        taking = None if channel is None else partial(_take, config, channel, server, listeners)
        started = loop.create_task(server.start(_print_progress, main, secure, taking, report_serving))
        signalled = loop.create_task(stopped.wait())
        etcd_ended = loop.create_task(_end_of(embedded))
        if not await _has_started(started, signalled, etcd_ended):
            if server.log.is_copy:
                await server.stop()
            return 0
        if "peer" in listeners and config.peer_listen is not None:
            await server.take_entries(listeners["peer"])
        if channel is not None:  # its ports have come only now
            await _start_admin(prepared, server, listeners, admin, tree_access)
        archiving = _begin_side_tasks(config, server, access, tasks, stack)
        await control.open()
        stack.callback(control.close)
        report_serving()
        if channel is not None:
            await tell_old_process(channel)
        obstacle = supervisor.obstacle() if embedded is None else "etcd is embedded: restart instead"
        failed = loop.create_task(server.failed())
        successor = await until_ended(control, server, listeners, (failed, signalled, etcd_ended), obstacle)
        if successor and channel is None and supervisor.is_needed():
            supervisor.pass_on_to(successor, loop)
            # What came too late for this process:
            if stopped.is_set():
                signal.raise_signal(signal.SIGTERM)
            if control.requested.is_set():
                signal.raise_signal(signal.SIGUSR2)
        await _raise_fault((failed, etcd_ended), archiving)
        if successor:
            await admin.aclose()  # first: its port is the new process's, and this one is "not ready" now
        else:
            log.info("draining")
            notify(STOPPING)
        await server.stop()
    return successor


def _new_server(
    config: Config, prepared: Prepared, access: Access, ports: Mapping[str, int], stack: AsyncExitStack
) -> Server:
    """The server, not started. `stack` closes its connections to etcd."""
    etcd = access.client(prepared.etcd_tls)
    stack.push_async_callback(etcd.close)
    return Server(
        config,
        etcd,
        partial(run_process, access),
        prepared.client_tls,
        prepared.login,
        prepared.tracer,
        read_metrics=access.metrics_reader(prepared.etcd_tls),
        home=home_of(config, ports),
        peer_port=peer_port_of(config, ports),
    )


def _begin_side_tasks(
    config: Config, server: Server, access: Access, tasks: Tasks, stack: AsyncExitStack
) -> Archiving | None:
    """Begin what works alongside a started server: the watches over this process, and the archive."""
    tasks.start(watch_pauses(server.process.pauses, config.pause_warn / 1000), "watch for pauses")
    watchdog = WatchdogThread(Watchdog(server, asyncio.get_running_loop(), limit_of(config.max_staleness)))
    watchdog.start()
    stack.callback(watchdog.stop)
    if not config.archive.url:
        return None
    archiving = server.process.archive = Archiving(server.log, access, config.prefix, config.archive)
    tasks.start(archiving.run(), "archive the log")
    return archiving


async def _has_started(
    started: "asyncio.Task[None]",
    signalled: "asyncio.Task[Any]",
    etcd_ended: "asyncio.Task[EmbeddedEtcdError]",
) -> bool:
    """Wait until the server has started or a signal came. Raises what the start raises, and etcd's error."""
    await asyncio.wait((started, signalled, etcd_ended), return_when=asyncio.FIRST_COMPLETED)
    if started.done():
        await started
        return True
    started.cancel()
    if etcd_ended.done():
        raise etcd_ended.result()
    return False


async def _raise_fault(faults: Sequence["asyncio.Task[Any]"], archiving: Archiving | None) -> None:
    """Raise the first of these that is there, after the archive of a tree that was moved; wait for none."""
    for fault in faults:
        if fault.done():
            error = fault.result()
            if isinstance(error, TreeSealed) and archiving is not None:
                await archiving.finish()
            raise error
        fault.cancel()


def _stopped_by_signals(loop: asyncio.AbstractEventLoop) -> asyncio.Event:
    """Is set by the signals that end a process. What nothing handles ends it from now on, too."""
    take_charge(loop)
    stopped = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stopped.set)
    return stopped


def _controlled_by_signals(
    config: Config, loop: asyncio.AbstractEventLoop, stopped: asyncio.Event
) -> Control:
    """Takes requests for an upgrade; those by its socket once it is open."""
    control = Control(f"--listen {listening_address(config.host, config.port)} --prefix {config.prefix}")
    for signum in _UPGRADING:
        loop.add_signal_handler(signum, control.requested.set)
    if sys.stdin.isatty():
        loop.add_signal_handler(signal.SIGHUP, stopped.set)  # the terminal is closed
    usual = "INFO" if config.log_level == "DEBUG" else config.log_level
    loop.add_signal_handler(signal.SIGUSR1, logs.toggle_debug, usual, "SIGUSR1")
    return control


async def _start_admin(
    prepared: Prepared,
    server: BaseServer,
    listeners: Listeners,
    stack: AsyncExitStack,
    tree_access: Mapping[str, Any],
) -> None:
    """Start the admin HTTP server, if there is one. The arguments are those of `AdminSettings.start`."""
    if "admin" in listeners and prepared.admin is not None:
        await prepared.admin.start(server, listeners["admin"], stack, tree_access)


def _look_after(config: Config, prepared: Prepared, server: BaseServer, stack: AsyncExitStack) -> Tasks:
    """Send systemd signs of life, and watch when certificates end. `stack` ends these tasks."""
    tasks = Tasks()
    stack.push_async_callback(tasks.close)
    interval = watchdog_interval()
    if interval is not None:
        tasks.start(report_alive(interval), "report to systemd")
    ends = CertificateEnds(partial(certificates_of, config, prepared.client_tls))
    server.process.certificates = ends
    tasks.start(ends.run(), "watch when certificates end")
    return tasks


async def _take(config: Config, channel: Channel, server: Server, listeners: Listeners) -> Listeners:
    """Take over from the process at the other end."""
    taken = await take(channel, server)
    if taken:
        listeners.update({name: socket.socket(fileno=fd) for name, fd in taken.items()})
        _bind_for_peers(config, listeners)
    else:
        _bind(config, listeners)
    return listeners


def _access(config: Config, endpoints: tuple[str, ...]) -> Access:
    """How this process and its children reach etcd."""
    return Access(endpoints, config.etcd_access)


def _tree_access(config: Config, endpoints: tuple[str, ...]) -> dict[str, Any]:
    """How a child process reaches the tree."""
    return {**_access(config, endpoints).as_json(), "prefix": config.prefix}


def _report_serving(config: Config, server: Server, endpoints: Sequence[str], listeners: Listeners) -> None:
    """Report that clients are served, and from which tree."""
    where = f"at {','.join(endpoints)}"
    if not config.etcd:
        where = f"of --data-dir {Path(config.data_dir).absolute()}"  # as tools take it
    _report_ready(
        f"serving ZooKeeper clients on {listening_address(config.host, server.port)},"
        f"{' read-only while the tree follows another one,' if server.log.is_copy else ''}"
        f" etcd {where}, prefix {config.prefix}, {len(server.machine.tree.nodes)} znodes",
        listeners,
    )


def _report_ready(what: str, listeners: Listeners) -> None:
    """Clients are served: collect rarely from now on, and report to systemd and on the terminal."""
    collect_rarely()
    notify(READY)
    _print_line(f"ready: {what}, {_admin_address(listeners.get('admin'))}")


def collect_rarely() -> None:
    """Let the garbage collector do next to nothing, once the tree is loaded."""
    # The tree stays: without this each full collection would walk all of it.
    gc.freeze()
    # Requests are freed by their reference counts; what is left to collect is rare, and collecting costs. So
    # each object is looked at twice, while it is young, among 5,000 and then 20,000 others: 1 to 4 ms. To
    # look at all of them would take seconds in a tree that has grown.
    gc.set_threshold(5_000, 2, 1_000_000)
    gc.enable()


async def _end_of(embedded: EmbeddedEtcd | None) -> EmbeddedEtcdError:
    """Wait for the end of the embedded etcd, for ever if there is none; returns the error to report."""
    while embedded is None:
        await asyncio.get_running_loop().create_future()
    status = await embedded.wait()
    return EmbeddedEtcdError(f"the embedded etcd ended with status {status}; see {embedded.log_path}")


def _admin_address(admin_listener: socket.socket | None) -> str:
    if admin_listener is None:
        return "no admin HTTP server"
    return f"admin HTTP server on {socket_address(*admin_listener.getsockname()[:2])}"


def _print_line(text: str) -> None:
    """A standard output that cannot be written to, or that is not read, is no reason to stop."""
    try:
        if is_writable(sys.stdout):
            print(text, flush=True)
        else:
            log.warning("cannot write to standard output: it is not read")
    except OSError as error:
        log.warning("cannot write to standard output: %s", error.strerror)


def _print_progress(count: int) -> None:
    logs.say(f"loading: {count} znodes and log entries so far")


if __name__ == "__main__":
    sys.exit(guarded(main, "zketcd", failed=0))  # the `ready` line that cannot be written is a warning
