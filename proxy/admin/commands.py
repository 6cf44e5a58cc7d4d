"""The commands of ZooKeeper's AdminServer (Commands.java): their names, who may run them, what they answer.

Values only: HTTP and JSON are `http`'s. A response always has "command" and "error" (CommandResponse.toMap).
Lists may be very long: clients and watches may come and go while they pause.
"""

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from proxy.admin.facts import NOT_SERVING, VERSION, Facts, environment
from proxy.admin.guard import Guard, Refused
from proxy.admin.top import document
from proxy.options.words import LONG
from proxy.state.auth.schemes import AuthSchemes
from proxy.state.pause import Pause

Body = dict[str, Any]
Arguments = Mapping[str, str]

_LONG = range(-(1 << 63), 1 << 63)


class Response(NamedTuple):
    """An HTTP status and a JSON object."""

    status: HTTPStatus
    body: Body


class _Command(NamedTuple):
    names: tuple[str, ...]  # the first is the one that the list of all commands has
    run: Callable[[Arguments, Pause], Body]
    needs_server: bool = True  # it is answered only while new clients are served
    method: str = "GET"
    guarded: bool = False  # needs all permissions on the root node
    missing: str = ""  # why zketcd does not have it, and what to use instead


class Commands:
    """All commands about one server."""

    def __init__(self, facts: Facts, auth: AuthSchemes) -> None:
        self._facts = facts
        self.guard = Guard(facts.subject, auth)
        clients = facts.clients
        commands = (
            _Command(("configuration", "conf", "config"), lambda *_: facts.configuration()),
            _Command(("connection_stat_reset", "crst"), self._reset_connections),
            _Command(("connections", "cons"), lambda _, pause: self._connections(pause, brief=False)),
            _Command(("dirs",), lambda *_: {"datadir_size": facts.data_size, "logdir_size": facts.data_size}),
            _Command(("dump",), self._dump),
            _Command(("environment", "env", "envi"), lambda *_: environment(), needs_server=False),
            _Command(
                ("get_trace_mask", "gtmk"), lambda *_: {"tracemask": facts.trace_mask}, needs_server=False
            ),
            _Command(("hash",), lambda *_: {"digests": []}),  # zketcd's digests are in /metrics
            _Command(("initial_configuration", "icfg"), lambda *_: {"initial_configuration": ""}),
            _Command(("is_read_only", "isro"), lambda *_: {"read_only": facts.read_only}),
            # As a ZooKeeper that has not taken one yet: zketcd's snapshots are in /metrics.
            _Command(("last_snapshot", "lsnp"), lambda *_: {"zxid": "f" * 16, "timestamp": -1}),
            _Command(("leader", "lead"), lambda *_: facts.leader()),
            # As the word. ZooKeeper's has a NullPointerException without a quorum, and its answer is a 500.
            _Command(("monitor", "mntr"), lambda *_: facts.monitor()),
            _Command(("observer_connection_stat_reset", "orst"), lambda *_: {}),  # there are no observers
            _Command(("observers", "obsr"), lambda *_: {"synced_observers": 0, "observers": []}),
            _Command(
                ("restore", "rest"),
                lambda *_: {},
                method="POST",
                guarded=True,
                missing="the state is in etcd: restore its members with etcdutl snapshot restore"
                " (before etcd 3.5: etcdctl)",
            ),
            _Command(("ruok",), lambda *_: {}),
            _Command(("server_stats", "srvr"), lambda *_: self._statistics()),
            _Command(("set_trace_mask", "stmk"), self._set_trace_mask, needs_server=False),
            _Command(
                ("snapshot", "snap"),
                lambda *_: {},
                guarded=True,
                missing="the state is in etcd: back it up with etcdctl snapshot save",
            ),
            _Command(("stat_reset", "srst"), self._reset_server),
            _Command(("stats", "stat"), lambda _, pause: self._all_statistics(pause)),
            # There is no JVM, so there are none.
            _Command(("system_properties", "sysp"), lambda *_: {}, needs_server=False),
            _Command(("top",), lambda *_: document(facts.subject.sampling)),  # zketcd's own
            _Command(("voting_view",), lambda *_: {"current_config": {}}),
            _Command(("watch_summary", "wchs"), self._watch_summary),
            _Command(
                ("watches", "wchc"),
                lambda _, pause: _table("session_id_to_watched_paths", clients.watches_by_session(), pause),
            ),
            _Command(
                ("watches_by_path", "wchp"),
                lambda _, pause: _table("path_to_session_ids", clients.watches_by_path(pause), pause),
            ),
            _Command(("zabstate",), lambda *_: {"voting": False, "zabstate": ""}, needs_server=False),
        )
        self._by_name = {name: command for command in commands for name in command.names}

    @property
    def primary_names(self) -> list[str]:
        """The commands' first names, sorted."""
        return sorted({command.names[0] for command in self._by_name.values()})

    def is_long(self, name: str) -> bool:
        """Whether a command may take long, so that few are to be run at once."""
        command = self._by_name.get(name)
        return command is not None and not LONG.isdisjoint(command.names)

    def run(
        self,
        method: str,
        name: str,
        arguments: Arguments,
        authorization: str | None,
        address: str,
        pause: Pause,
    ) -> Response:
        """Run a command. `authorization` is the header of that name, `address` the client's."""
        command = self._by_name.get(name)
        if command is None:
            return failed(HTTPStatus.OK, name, f"Unknown command: {name}")
        if command.needs_server and not self._facts.takes_new_clients:
            return failed(HTTPStatus.OK, name, NOT_SERVING)
        if command.guarded:
            judged = self.guard.judge(authorization, address)
            if isinstance(judged, Refused):
                return failed(judged.status, name, judged.why)
        if method != command.method:
            return failed(
                HTTPStatus.METHOD_NOT_ALLOWED, name, f"{command.names[0]} needs the method {command.method}"
            )
        if command.missing:
            return failed(HTTPStatus.SERVICE_UNAVAILABLE, command.names[0], command.missing)
        body = command.run(arguments, pause)
        return Response(HTTPStatus.OK, {**body, "command": command.names[0], "error": body.get("error")})

    def _reset_connections(self, _: Arguments, pause: Pause) -> Body:
        self._facts.clients.reset_connections(pause)
        return {}

    def _reset_server(self, _: Arguments, _pause: Pause) -> Body:
        self._facts.reset_server()
        return {}

    def _dump(self, _: Arguments, pause: Pause) -> Body:
        clients = self._facts.clients
        expiry = clients.session_expiry(pause)
        ephemerals = _table("session_id_to_ephemeral_paths", clients.ephemerals(), pause)
        return {"expiry_time_to_session_ids": expiry, **ephemerals}

    def _connections(self, pause: Pause, *, brief: bool) -> Body:
        found: list[dict[str, Any]] = []
        for some in pause.batches(self._facts.clients.connections(brief=brief)):
            found += some
        return {"connections": found, "secure_connections": []}

    def _all_statistics(self, pause: Pause) -> Body:
        connections = self._connections(pause, brief=True)
        return self._statistics() | connections

    def _statistics(self) -> Body:
        return {
            "version": VERSION,
            "read_only": self._facts.read_only,
            "server_stats": self._facts.statistics(),
            "client_response": self._facts.response_sizes(),
            "node_count": self._facts.znodes,
        }

    def _set_trace_mask(self, arguments: Arguments, _pause: Pause) -> Body:
        text = arguments.get("traceMask")
        if text is None:
            return {"error": "setTraceMask requires long traceMask argument"}
        try:
            mask = int(text)
        except ValueError:
            mask = _LONG.stop
        if mask not in _LONG:
            return {"error": f"setTraceMask requires long traceMask argument, got {text}"}
        self._facts.trace_mask = mask
        return {"tracemask": mask}

    def _watch_summary(self, _: Arguments, _pause: Pause) -> Body:
        names = ("num_connections", "num_paths", "num_total_watches")
        return dict(zip(names, self._facts.clients.watch_summary(), strict=True))


def _table(name: str, pairs: Iterator[tuple[Any, Any]], pause: Pause) -> Body:
    found: dict[Any, Any] = {}
    for some in pause.batches(pairs):
        found.update(some)
    return {name: found}


def failed(status: HTTPStatus, name: str, error: str) -> Response:
    """The response of a command that is refused."""
    return Response(status, {"command": name, "error": error})
