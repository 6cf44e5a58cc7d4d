"""`zketcd shell`: commands as those of zkCli and keeper-client, with completion of paths and a history."""

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from cli.client import Client, Refused
from cli.output import one_line, say, show, stat_lines, visible
from codec import client as zk
from codec.constants import CreateMode
from codec.errors import MalformedPacket
from codec.jute import OPEN_ACL
from codec.packets import STAT_NAMES
from schema.paths import ROOT, is_valid, join, parent_of
from zketcd.online import nodes, quoting

_HISTORY = Path("~/.zketcd_history")
_NO_HISTORY = (OSError, RuntimeError)  # RuntimeError: a user without a home directory
_MOST_LINES = 1000
_PING = 10.0  # seconds; the session's timeout is 30
_FLAGS = {
    "": CreateMode.PERSISTENT,
    "e": CreateMode.EPHEMERAL,
    "s": CreateMode.PERSISTENT_SEQUENTIAL,
    "es": CreateMode.EPHEMERAL_SEQUENTIAL,
    "c": CreateMode.CONTAINER,
}
_HELP = {
    "ls": "ls [-R] [PATH]          the children; -R: all below",
    "cd": "cd [PATH]               the node that relative paths begin at",
    "pwd": "pwd                     this node",
    "get": "get [PATH]              the data",
    "stat": "stat [PATH]             the Stat",
    "create": "create [-e] [-s] [-c] PATH [DATA [ACL]]",
    "set": "set PATH DATA [VERSION]",
    "delete": "delete PATH [VERSION]   a node without children (also rm)",
    "rmr": "rmr PATH                a node and all below it (also deleteall)",
    "getacl": "getAcl [PATH]",
    "setacl": "setAcl PATH SCHEME:ID:PERMISSIONS,...",
    "exists": "exists PATH             1 or 0",
    "help": "help",
    "exit": "exit                    end the session and its ephemerals (also quit)",
}
_ALIASES = {"rm": "delete", "deleteall": "rmr", "touch": "create", "quit": "exit", "q": "exit"}


class Shell:
    """One session and the node that relative paths begin at."""

    def __init__(self, session: Client) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._here = ROOT
        self._names: list[str] = []  # what fits to the word that is completed
        self._is_over = threading.Event()
        self._commands: dict[str, Callable[[list[str]], None]] = {
            name: getattr(self, f"_{name}") for name in _HELP
        }

    def run(self) -> int:
        """Read commands until `exit` or the end of input; without a terminal a command that fails ends it."""
        interactive = sys.stdin.isatty()
        if interactive:
            self._prepare_terminal()
        pinger = threading.Thread(target=self._ping, daemon=True)
        pinger.start()
        try:
            while not self._is_over.is_set():
                try:
                    line = input(f"{visible(self._here)} :) ") if interactive else input()
                except EOFError:
                    return 0
                except KeyboardInterrupt:
                    print()
                    continue
                try:
                    found = quoting.split(line)
                except ValueError as error:
                    say(str(error))
                    found = []
                if found and self.run_line(found) and not interactive:
                    return 1
            return 0
        finally:
            self._is_over.set()
            if interactive:
                _write_history()

    def run_line(self, words: Sequence[str]) -> int:
        """Run one command; 1 if it fails."""
        name = _ALIASES.get(words[0].lower(), words[0].lower())
        command = self._commands.get(name)
        try:
            if command is None:
                raise ValueError(f"unknown command {words[0]!r}: `help` lists all")
            with self._lock:
                command(list(words[1:]))
        except (Refused, MalformedPacket, ValueError) as error:
            say(str(error))
            return 1
        return 0

    def complete(self, text: str, state: int) -> str | None:
        """As readline asks: the candidate number `state` for the text that it takes for the last word."""
        if not state:
            import readline

            line = readline.get_line_buffer()[: readline.get_endidx()]
            self._names = [text + each.removeprefix(line) for each in self.candidates(line)]
        return self._names[state] if state < len(self._names) else None

    def candidates(self, text: str) -> list[str]:
        """What a line may become: the first word is a command's name, the second a path.

        Clients choose names: what is added is quoted as the line needs it.
        """
        line = quoting.read(text)
        begun = line.last or ""
        if not line.done:
            found, end = [name for name in (*_HELP, *_ALIASES) if name.startswith(begun)], " "
        elif all(word.startswith("-") for word in line.done[1:]):
            _, slash, begun = begun.rpartition("/")
            found, end = self._names_below(line.last or ""), ""
            # One that begins with - would be an option: ./ before it makes it a path.
            found = [name for name in found if name.startswith(begun) and (slash or not name.startswith("-"))]
        else:
            return []
        added = [quoting.continued(line, name.removeprefix(begun)) for name in sorted(found)]
        possible = [each for each in added if each is not None]
        if len(possible) == 1:
            end = line.open + end
        return [f"{text}{each}{end}" for each in possible]

    def _names_below(self, word: str) -> list[str]:
        """The names in the folder of an unfinished word."""
        above, slash, _ = word.rpartition("/")
        with suppress(Refused, MalformedPacket, ValueError), self._lock:
            names = self._session.call(zk.children(self._place(above + slash))).names
            # readline prints names as they are: one with control characters has to be typed.
            return [name for name in names if visible(name) == name]
        return []

    # -- commands --------------------------------------------------------------------------------------------

    def _ls(self, words: list[str]) -> None:
        recursive = "-R" in words
        path = self._only([word for word in words if word != "-R"])
        if recursive:
            for each in nodes.walk(self._session, path):
                show(each)
        else:
            for name in sorted(self._session.call(zk.children(path)).names):
                show(name)

    def _cd(self, words: list[str]) -> None:
        path = self._only(words) if words else ROOT
        if not self._session.call(zk.exists(path)):
            raise ValueError(f"there is no node {path}")
        self._here = path

    def _pwd(self, _words: list[str]) -> None:
        show(self._here)

    def _get(self, words: list[str]) -> None:
        data, _ = self._session.call(zk.get_nullable(self._only(words)))
        if data is None:
            show("(null)")
            return
        try:
            show(data.decode())
        except UnicodeDecodeError:
            show(data.hex(" "))

    def _stat(self, words: list[str]) -> None:
        _, stat = self._session.call(zk.get(self._only(words)))
        for line in stat_lines(dict(zip(STAT_NAMES, stat, strict=True))):
            show(line)

    def _create(self, words: list[str]) -> None:
        flags = "".join(sorted(word[1:] for word in words if word in ("-e", "-s", "-c")))
        rest = [word for word in words if word not in ("-e", "-s", "-c")]
        if flags not in _FLAGS or not 1 <= len(rest) <= 3:
            raise ValueError(_HELP["create"])
        data = rest[1] if len(rest) > 1 else ""
        acl = nodes.parsed_acl(rest[2]) if len(rest) > 2 else OPEN_ACL
        created = zk.create(self._path(rest[0]), _bytes(data), _FLAGS[flags], acl)
        show(self._session.call(created))

    def _set(self, words: list[str]) -> None:
        if not 2 <= len(words) <= 3:
            raise ValueError(_HELP["set"])
        version = nodes.parsed_version(words[2]) if len(words) > 2 else -1
        self._session.call(zk.set_data(self._path(words[0]), _bytes(words[1]), version))

    def _delete(self, words: list[str]) -> None:
        if not 1 <= len(words) <= 2:
            raise ValueError(_HELP["delete"])
        version = nodes.parsed_version(words[1]) if len(words) > 1 else -1
        path = self._path(words[0])
        self._session.call(zk.delete(path, version))
        say(f"{path}: deleted 1 node")

    def _rmr(self, words: list[str]) -> None:
        if len(words) != 1 or (path := self._path(words[0])) == ROOT:
            raise ValueError(_HELP["rmr"])
        nodes.delete_all(self._session, path)

    def _getacl(self, words: list[str]) -> None:
        for each in self._session.call(zk.get_acl(self._only(words))).acl:
            show(one_line(nodes.acl_text([each])))

    def _setacl(self, words: list[str]) -> None:
        if len(words) != 2:
            raise ValueError(_HELP["setacl"])
        self._session.call(zk.set_acl(self._path(words[0]), nodes.parsed_acl(words[1])))

    def _exists(self, words: list[str]) -> None:
        show(str(int(self._session.call(zk.exists(self._only(words))) is not None)))

    def _help(self, _words: list[str]) -> None:
        print("\n".join(_HELP.values()))

    def _exit(self, _words: list[str]) -> None:
        self._is_over.set()

    # -- paths -----------------------------------------------------------------------------------------------

    def _only(self, words: list[str]) -> str:
        """The path of a command that takes at most one."""
        if len(words) > 1:
            raise ValueError(f"one path, not {len(words)}: put quotes around a path with spaces")
        return self._path(words[0]) if words else self._here

    def _path(self, word: str) -> str:
        path = word and self._place(word)  # a script's variable that is not set is an empty word
        if not is_valid(path):
            raise ValueError(f"{path!r} is no path of a node")
        return path

    def _place(self, word: str) -> str:
        """The absolute path of a word, with `.` and `..`."""
        path = ROOT if word.startswith("/") else self._here
        for name in word.split("/"):
            if name == "..":
                path = path if path == ROOT else parent_of(path)
            elif name not in ("", "."):
                path = join(path, name)
        return path

    # -- the terminal ----------------------------------------------------------------------------------------

    def _prepare_terminal(self) -> None:
        import readline

        with suppress(*_NO_HISTORY):
            readline.read_history_file(_HISTORY.expanduser())
        readline.set_history_length(_MOST_LINES)
        readline.set_completer_delims(" \t\n")
        readline.set_completer(self.complete)
        readline.parse_and_bind("tab: complete")

    def _ping(self) -> None:
        while not self._is_over.wait(_PING):
            with suppress(Refused), self._lock:
                self._session.ping()


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _write_history() -> None:
    import readline

    with suppress(*_NO_HISTORY):
        readline.write_history_file(_HISTORY.expanduser())
        _HISTORY.expanduser().chmod(0o600)
