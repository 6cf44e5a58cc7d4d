"""A command of the pipeline that goes on until it is told to stop, as a process of its own."""

import sys
from collections.abc import Sequence

from tests.harness.process import ServerProcess
from tests.harness.waiting import wait_until


class PipelineCommand(ServerProcess):
    """`python -m pipeline` with `follow` or `export --follow`; it may be killed and started again."""

    kind = "pipeline"

    def __init__(self, *arguments: str) -> None:
        super().__init__()
        self._arguments = arguments

    def command(self) -> Sequence[str]:
        """The command line."""
        return [sys.executable, "-m", "pipeline", *self._arguments]

    def serves(self) -> bool:
        """Whether it has said how far it is."""
        return "zxid" in self.log_text()

    def wait_until_level(self) -> None:
        """Wait until it says so."""
        wait_until(lambda: "level at zxid" in self.log_text(), f"{self.name} is level", 60)
