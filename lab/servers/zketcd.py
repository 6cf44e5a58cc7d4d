"""zketcd itself, as users start it: `python -m serve`."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, ClassVar

from typing_extensions import override

from lab.servers import forked
from lab.servers.process import REPOSITORY, ServerProcess

_READY = re.compile(r"^ready\b.*\n", re.MULTILINE)


class ZketcdServer(ServerProcess):
    """One proxy. Two of them on one EtcdServer with one prefix serve the same tree."""

    kind = "zketcd"
    #: Whether it is forked from a process that has imported it (see `forked`): for tests.
    forks: ClassVar = False

    def __init__(
        self,
        etcd_endpoint: str | None,
        *,
        port: int | None = None,
        arguments: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        start_timeout: float = 60.0,
        within: Sequence[str] = (),
        **options: object,
    ) -> None:
        """Start on `etcd_endpoint` (None: the embedded etcd, its data in this server's folder).

        `options` are the command line's: tick_time=500 becomes --tick-time 500, None leaves one out;
        `arguments` go as they are. `within`: a program that runs it in another environment.
        """
        super().__init__(port=port, start_timeout=start_timeout)
        self._etcd_endpoint = etcd_endpoint
        self._arguments = arguments
        self._variables = dict(variables or {})
        self._options = options
        self._within = within

    def command(self) -> Sequence[str]:
        """The command line of `python -m serve`."""
        command = [*self._within, sys.executable, "-m", "serve"]
        command += ["--listen", self.address, "--data-dir", str(self.data_dir)]
        command += ["--four-letter-words", "*"]
        if self._etcd_endpoint is not None:
            command += ["--etcd", self._etcd_endpoint]
        # Many run side by side, and the default port of the admin server is one.
        for option, value in {"admin_listen": "none", **self._options}.items():
            if value is None:
                continue
            command += ["--" + option.replace("_", "-"), str(value)]
        return [*command, *self._arguments]

    def environment(self) -> Mapping[str, str]:
        """Unbuffered output: the ready line must reach the log when it is printed."""
        return {"PYTHONUNBUFFERED": "1", **self._variables}

    @override
    def _begin(
        self, command: Sequence[str], environment: Mapping[str, str], log: IO[bytes]
    ) -> subprocess.Popen[bytes] | forked.ForkedProcess:
        arguments = command[len(forked.SERVE) :]
        # A variable may be for the interpreter itself, or for the loader.
        plain = all(name.startswith("ZKETCD_") for name in self._variables)
        if self.forks and plain and (*command,) == (*forked.SERVE, *arguments):
            return forked.start(arguments, environment, log.fileno())
        return super()._begin(command, environment, log)

    def serves(self) -> bool:
        """Whether the line that begins with `ready` has been printed since the last start."""
        return self.times_ready > 0

    @property
    def times_ready(self) -> int:
        """How many processes have printed that line since: more than one after a hot restart."""
        return len(_READY.findall(self.log_text()))


class UpgradableServer(ZketcdServer):
    """A zketcd, and the processes that take over from it: one process group."""

    serving = 0  # the process that serves; 0 before the first upgrade: the one that was started
    _group = 0
    # Kills the group when this process closes its input, or dies: the kernel ends only the first server then.
    _end: subprocess.Popen[bytes] | None = None

    def upgrade(self) -> str:
        """Run `zketcd upgrade`; what it prints."""
        done = subprocess.run(
            [*self.upgrade_command(), str(self.serving or self.pid)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=REPOSITORY,
        )
        if done.returncode == 0:
            self.serving = int(done.stdout.split()[1])
        return done.stdout + done.stderr

    def upgrade_command(self) -> Sequence[str]:
        """`zketcd upgrade`, without the process."""
        return [sys.executable, "-m", "zketcd", "upgrade"]

    @override
    def launch(self) -> None:
        super().launch()
        self._end_group()
        self.serving, self._group = 0, self.pid
        self._end = subprocess.Popen(
            ["sh", "-c", 'read -r _; kill -9 "-$0" 2>/dev/null', str(self._group)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @override
    def kill(self) -> None:
        with suppress(ProcessLookupError):  # it has ended; its status may still be on its way
            os.killpg(self._group, signal.SIGKILL)
        self.wait()

    @override
    def pause(self) -> None:
        os.killpg(self._group, signal.SIGSTOP)
        super().pause()

    @override
    def resume(self) -> None:
        os.killpg(self._group, signal.SIGCONT)

    @override
    def close(self) -> None:
        self._end_group()  # also if the process that was started has ended
        super().close()

    def _end_group(self) -> None:
        if self._end is not None:
            self._end.communicate()
            self._end = None
