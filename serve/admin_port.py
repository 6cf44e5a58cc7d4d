"""The admin port of a proxy: the admin HTTP server, and below it the console. Loaded only if there is one."""

import socket
import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, NamedTuple

from console.answers.api import Api
from console.answers.past import ArchivePlace
from console.assets import read_assets
from console.feeds import Feeds
from console.http import Console, ConsoleSettings
from console.people import passwords
from console.storage import Storage
from console.tables import Source, Tables
from proxy.admin.changes import Changes
from proxy.admin.commands import Commands
from proxy.admin.http import AdminServer
from proxy.base_server import BaseServer
from proxy.config import Config
from proxy.frontend.certificates import TlsContext
from proxy.support.tasks import Tasks

_ENVELOPE = 16 << 10  # bytes of a request to the console around a znode's data


class AdminSettings(NamedTuple):
    """What the admin HTTP server needs besides the proxy."""

    console: ConsoleSettings | None
    certificates: TlsContext | None  # its PEM files, which may change; None without TLS
    url: str  # of the archive; "" for none
    at: str  # the moment that is served; "" for the present
    tls: ssl.SSLContext | None  # for its listener: shows the certificate that is in the files by then

    async def start(
        self,
        server: BaseServer,
        listener: socket.socket,
        stack: AsyncExitStack,
        tree_access: Mapping[str, Any],
    ) -> None:
        """Start the admin HTTP server; `stack` stops it. `tree_access`: how a child reaches the tree."""
        commands = Commands(server.facts, server.auth)
        changes = Changes(server.facts.subject, commands.guard, server.kill)
        feeds = None
        if self.console is None:
            admin = AdminServer(server.facts, commands, changes, server.words)
        else:
            settings = self.console
            if settings.archive is not None and not self.at:  # an etcd that is embedded was not known before
                archive = settings.archive._replace(etcd=tuple(tree_access["etcd"]))
                settings = settings._replace(archive=archive)
            console = console_of(server, settings)
            source = Source(tree_access, self.url, self.at)
            feeds = Feeds(console, source)
            admin = AdminServer(
                server.facts,
                commands,
                changes,
                server.words,
                console.application,
                Tables(source, console.call_from_outside).routes + feeds.routes,
                Storage(console).routes,
            )
        await admin.start(listener, self.tls, server.shares.admin)
        if self.certificates is not None:
            tasks = Tasks()
            tasks.start(self.certificates.follow(), "follow the certificates of the admin port")
            stack.push_async_callback(tasks.close)
        # It ends last: it reports that this proxy is not ready while it drains.
        stack.push_async_callback(admin.stop)
        if feeds is not None:
            stack.callback(feeds.stop)


def admin_settings(config: Config) -> AdminSettings:
    """Raises ValueError for bad files; blocks."""
    certificates = None
    if config.admin_tls:
        # Probes have no certificates, so none is required here: the console decides who needs one.
        asked = "none" if config.tls.client_auth == "none" else "want"
        certificates = TlsContext(replace(config.tls, client_auth=asked))
    console = _console_settings(config) if config.console else None
    archive = config.archive
    at = (archive.at or "now") if archive.read_only else ""
    return AdminSettings(
        console, certificates, archive.url, at, certificates.for_listener() if certificates else None
    )


def _console_settings(config: Config) -> ConsoleSettings:
    """What the console is given. Raises ValueError for a bad file of users; blocks."""
    return ConsoleSettings(
        users=passwords.read(config.console_users) if config.console_users else {},
        write=config.console_write,
        certificates=config.admin_tls and config.tls.client_auth != "none",
        assets=read_assets(),
        most_bytes=config.max_frame * 4 // 3 + _ENVELOPE,  # base64, and JSON around it
        archive=ArchivePlace(config.archive.url, prefix=config.prefix) if config.archive.url else None,
    )


def console_of(server: BaseServer, settings: ConsoleSettings) -> Console:
    """The console of a server."""
    api = Api(
        server.facts,
        server.auth,
        server.connection,
        server.kill,
        users=settings.needs_login,
        write=settings.write,
        archive=settings.archive,
    )
    return Console(api, settings)
