"""`zketcd` as people type it: which program starts, with which arguments, and what is loaded for it."""

import os
import signal
import subprocess
import sys

import pytest

from cli.commands import COMMANDS
from ctl import main as ctl
from lab.servers.process import children_of
from proxy.version import VERSION
from tests.table import one_by_one
from zketcd.__main__ import main


def test_arguments_go_to_the_program_behind_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def program(*given: object) -> int:
        seen.extend(given)
        return 7

    monkeypatch.setattr(ctl, "main", program)
    assert main(["log", "--tail", "3"]) == 7
    assert seen == [["--tail", "3"], "log"]


@one_by_one("command", COMMANDS)
def test_each_command_has_a_program_and_a_help_of_its_own_name(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: zketcd {command} ")


@one_by_one(
    ("arguments", "status", "printed"),
    [
        (["--version"], 0, f"zketcd {VERSION}\n"),
        ([], 0, "raise-level"),
        (["--help"], 0, "raise-level"),
        (["frob"], 2, "invalid choice: 'frob'"),
        (["help", "frob"], 2, "'frob'"),
        (["--frob"], 2, "zketcd: error: "),
        (["ls"], 2, "zketcd ls: error: the following arguments are required: PATH"),
        (["serve", "--listen", "x"], 2, "zketcd serve: error: argument --listen: 'x' is not HOST:PORT"),
        (["export"], 2, "zketcd export: error: the following arguments are required: target"),
    ],
)
def test_usage(arguments: list[str], status: int, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    assert ended.value.code == status
    assert printed in (err if status else out)
    assert not status or err.count("\n") == 1


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Alone it lists the commands; of one it is what the command's own option prints."""
    assert main(["help"]) == 0
    assert "copy a tree of ZooKeeper into etcd" in capsys.readouterr().out
    texts = []
    for arguments in (["help", "get"], ["get", "--help"]):
        with pytest.raises(SystemExit):
            main(arguments)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert "--hex" in texts[0]


def test_a_library_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("ctl.main", "ctl.program", "cli.connection", "proxy.options.parser"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "configargparse", None)
    assert main(["ls", "/"]) == 2
    assert capsys.readouterr().err.startswith(
        "zketcd ls: the Python package configargparse is not installed."
    )


def test_a_module_of_ours_that_is_missing_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ctl.main", raising=False)
    monkeypatch.setitem(sys.modules, "ctl.program", None)
    with pytest.raises(ModuleNotFoundError):
        main(["ls", "/"])


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--version"], {"configargparse", "aiohttp", "uvloop", "pyspark"}),
        (["ls", "--help"], {"pyspark", "aiohttp"}),
    ],
)
@pytest.mark.long
def test_only_what_a_command_needs_is_loaded(arguments: list[str], unwanted: set[str]) -> None:
    code = (
        "import sys\nfrom zketcd.__main__ import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    print(*sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert unwanted.isdisjoint(printed.splitlines()[-1].split())


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "status"),
    [("help", 1), ("inspect", 2)],  # 1 would mean that trees cannot be moved
)
def test_a_full_disk_behind_standard_output(command: str, status: int) -> None:
    line = [sys.executable, "-m", "zketcd", command, "--help"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == status
    assert ended.stderr == "zketcd: cannot write to standard output: No space left on device\n"


_STARTING = (
    "import sys\n"
    "import serve.__main__\n"
    "from zketcd.__main__ import entry\n"
    "serve.__main__.main = lambda *_: print(flush=True) or len(sys.stdin.read())\n"
    "sys.exit(entry())\n"
)


@pytest.mark.long
def test_sigterm_ends_a_server_that_has_just_started_as_the_first_process_of_a_container() -> None:
    """The kernel ignored it there until the event loop ran, and the container was killed later."""
    container = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*container, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no namespaces of process ids here")
    command, pipe = [*container, sys.executable, "-c", _STARTING, "serve"], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()
            os.kill(children_of(server.pid)[0], signal.SIGTERM)
            status = server.wait(30)
            assert server.stderr is not None
            assert (status, server.stderr.read()) == (143, b"zketcd: terminated\n")
        finally:
            server.kill()


@one_by_one(
    ("module", "printed"),
    [("proxy.support.stdout", ""), ("zketcd.manual", ""), ("cli.client", "zketcd: interrupted\n")],
)
def test_ctrl_c_during_the_imports_prints_no_traceback(module: str, printed: str) -> None:
    interrupted = f"""
import os, runpy, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored in the background of a shell
sys.meta_path.insert(0, Interrupt())
sys.argv = ["zketcd", "ls", "/"]
runpy.run_module("zketcd", run_name="__main__")
"""
    done = subprocess.run(
        [sys.executable, "-c", interrupted], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", printed)
