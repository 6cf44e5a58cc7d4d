"""Where pipeline.follow and pipeline.etcd use clocks, random values and output, and what replaces them.

clocks        those of the simulated host that runs, and what the code of such a host uses for names
files         a process that is killed loses what it has not yet handed to the system
output        lines of progress and of status go into the trace, without the names of folders
checkpoint    after so many bytes of entries as the seed has it
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from typing_extensions import override

from pipeline.etcd import load
from pipeline.follow import files, finishing, inward, output, outward, patience, target
from pipeline.follow.files import Files
from proof.simulation.seams import HOST_SECRETS, HOST_TIME
from proof.simulation.world import Host


class _Files(Files):
    """The files of a process that may be killed."""

    @override
    def close(self) -> None:
        host = asyncio.get_running_loop()
        assert isinstance(host, Host)
        if host.dead and self._log is not None:
            # What is still in its memory goes nowhere.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._log.fileno())
            os.close(nowhere)
            self._log.close()
            self._log = None
        super().close()


@contextmanager
def installed(said: Callable[[str, str], None], checkpoint_bytes: int, piece: int) -> Iterator[None]:
    """Replace all of it. `said` gets what a host prints. Not to be nested."""

    def printed(text: str, **_options: Any) -> None:
        host = asyncio.get_running_loop()
        assert isinstance(host, Host)
        said(host.name, text)

    replaced: list[tuple[Any, str, Any]] = [
        *((module, "time", HOST_TIME) for module in (finishing, inward, output, patience)),
        *((module, "secrets", HOST_SECRETS) for module in (load, target)),
        *((module, "print_progress", printed) for module in (inward, outward, patience)),
        *((module, "print", printed) for module in (inward, output)),
        (inward, "_CHECKPOINT_BYTES", checkpoint_bytes),
        (outward, "_PIECE", piece),
        (outward, "Files", _Files),
        (files, "_LOG_BYTES", checkpoint_bytes),
    ]
    with ExitStack() as stack:
        for module, name, value in replaced:
            stack.enter_context(patch.object(module, name, value))
        yield
