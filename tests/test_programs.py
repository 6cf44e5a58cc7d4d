"""Every program that the repository runs is one that its set-up installs, so that a fresh machine has it too.

The sources are searched for programs: `find_program`, `shutil.which`, the first word of a command, libraries
that ctypes loads, paths below /usr, /bin and /sbin, and `command -v` in scripts. Each must be printed by
`tools/install_system_packages.sh --programs` for the names that the Makefile passes to that script, or be in
every Debian.
"""

import ast
import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.servers import BinaryMissing
from lab.servers.etcd import VERSIONS
from proxy.etcd.versions import warnings

REPOSITORY = Path(__file__).resolve().parents[1]
INSTALLER = REPOSITORY / "tools" / "install_system_packages.sh"
FOLDERS = (
    "bench",
    "cli",
    "console",
    "ctl",
    "deploy",
    "examples",
    "lab",
    "pipeline",
    "proof",
    "proxy",
    "serve",
    "tests",
    "tools",
)

# README.md asks for these before anything else.
PREREQUISITES = {"git", "make", "python3"}
# Packages that Debian marks as essential: libc-bin, util-linux, dash, bash, coreutils, dpkg, tar, apt.
ESSENTIAL = {"bash", "ldconfig", "nsenter", "prlimit", "setpriv", "sh", "tar", "true", "unshare"}
ESSENTIAL |= {"apt-get", "apt-helper", "dpkg", "dpkg-deb"}
# Folders that are searched for a program that has a name of its own.
SEARCHED = {"/usr/bin", "/usr/sbin", "/usr/share", "/usr/share/java"}
# What our own package brings.
PACKAGED = {
    "/usr/bin/zketcd",
    "/usr/share/doc/zketcd",
    "/usr/share/doc/zketcd/copyright",
    "/usr/share/doc/zketcd/docs/operating.md",
    "/usr/share/man/man1/zketcd.1.gz",
}

# First words of commands that are no programs: `zketcd import`.
OUR_OWN = {"import", "zketcd"}

_LOOKS = {"find_program", "which", "CDLL", "create_subprocess_exec"}
_PATH = re.compile(r"/(?:usr|bin|sbin)/[\w./-]*\w")


def _programs_in(source: str) -> Iterator[str]:
    """What a Python file looks for or runs, by name or path."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and _PATH.fullmatch(node.value):
                yield node.value
        elif isinstance(node, ast.Assign):
            if any(isinstance(target, ast.Name) and "command" in target.id for target in node.targets):
                yield from _first_word(node.value)
        elif isinstance(node, ast.FunctionDef) and "command" in node.name:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    yield from _first_word(inner.value)
        elif isinstance(node, ast.Call) and node.args:
            match node.func:
                case ast.Name(called) | ast.Attribute(attr=called) if called in _LOOKS:
                    yield from _text(node.args[0])
                case ast.Attribute(ast.Name("subprocess")):
                    yield from _first_word(node.args[0])


def _first_word(command: ast.expr) -> Iterator[str]:
    """The program of a command that is written as a list."""
    if isinstance(command, ast.List | ast.Tuple) and command.elts:
        yield from _text(command.elts[0])


def _text(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def needed() -> dict[str, set[str]]:
    """Programs, with the files that look for them."""
    found: dict[str, set[str]] = {}
    for folder in FOLDERS:
        for path in (REPOSITORY / folder).rglob("*.py"):
            if path != Path(__file__):
                for program in _programs_in(path.read_text()):
                    found.setdefault(program, set()).add(str(path.relative_to(REPOSITORY)))
    for path in (*(REPOSITORY / "tools").glob("*.sh"), REPOSITORY / "Makefile", REPOSITORY / ".ci" / "run"):
        for program in re.findall(r"command -v ([\w.-]+)", path.read_text()):
            found.setdefault(program, set()).add(str(path.relative_to(REPOSITORY)))
    return found


def installed() -> set[str]:
    """Programs that the Makefile and the scripts behind it have installed."""
    names: set[str] = set()
    for path in (REPOSITORY / "Makefile", *(REPOSITORY / "tools").glob("*.sh")):
        if path != INSTALLER:
            for words in re.findall(
                r"install_system_packages\.sh\"?((?: [a-z-]+)+)$", path.read_text(), re.M
            ):
                names.update(words.split())
    printed = subprocess.run(
        [INSTALLER, "--programs", *sorted(names)], check=True, capture_output=True, text=True
    )
    return set(printed.stdout.split())


def _is_provided(program: str, programs: set[str]) -> bool:
    if program.startswith(("/usr/", "/bin/", "/sbin/")):
        below = any(one.startswith(program + "/") for one in programs)
        return program in programs | SEARCHED | PACKAGED or below or Path(program).name in ESSENTIAL
    return program in programs | PREREQUISITES | ESSENTIAL | OUR_OWN


def test_everything_that_is_looked_for_is_installed_by_the_set_up() -> None:
    programs, looked_for = installed(), needed()
    assert {name: files for name, files in looked_for.items() if not _is_provided(name, programs)} == {}
    # Else the search finds nothing.
    known = {"etcdctl", "java", "jattach", "libzookeeper_mt.so.2", "git"}
    assert known | {"/usr/lib/zookeeper/bin"} <= set(looked_for)


def test_each_etcd_that_tests_run_is_pinned_and_fetched() -> None:
    fetched = re.search(r"^ETCD_VERSIONS := (.*)$", (REPOSITORY / "Makefile").read_text(), re.M)
    assert fetched is not None
    assert tuple(fetched[1].split()) == VERSIONS
    pins = (REPOSITORY / "requirements" / "debs.txt").read_text()
    embedded = re.findall(r'"etcd-([\d.]+)"', (REPOSITORY / "tools" / "setup_etcd.py").read_text())
    assert len(embedded) == 2
    assert warnings(embedded[0]) == []
    for version in (*VERSIONS, *embedded):
        for machine in ("amd64", "arm64"):
            assert re.search(rf"^etcd-{re.escape(version)} .*_{machine}\.deb$", pins, re.M)


def test_the_documents_name_every_package_that_the_set_up_installs() -> None:
    function = INSTALLER.read_text().partition("packages_of() {")[2].partition("\n}")[0]
    packages = " ".join(re.findall(r"echo ([a-z0-9 -]+)", function)).split()
    assert "etcd-client" in packages  # else nothing was found in the script
    described = (REPOSITORY / "docs" / "install.md").read_text()
    assert [package for package in packages if f"`{package}`" not in described] == []


@pytest.mark.parametrize(
    ("source", "program"),
    [
        ("find_program('one', 'advice')", "one"),
        ("shutil.which('one')", "one"),
        ("subprocess.run(['one', 'argument'], check=True)", "one"),
        ("asyncio.create_subprocess_exec('one', 'argument')", "one"),
        ("ctypes.CDLL('libone.so.1')", "libone.so.1"),
        ("command = ['one', argument]", "one"),
        ("def command(self):\n    return ['one', argument]", "one"),
        ("FOLDER = '/usr/lib/one/bin'", "/usr/lib/one/bin"),
    ],
)
def test_each_way_to_look_for_a_program_is_known(source: str, program: str) -> None:
    assert list(_programs_in(source)) == [program]


@pytest.mark.real
@pytest.mark.parametrize("program", sorted(installed()))
def test_the_set_up_has_installed(program: str) -> None:
    """That the packages hold the programs. Fails with CI=true, as every test whose program is missing."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
    if program.startswith("lib"):
        try:
            ctypes.CDLL(program)
        except OSError as error:
            raise BinaryMissing(
                f"{program} is not installed ({error}): make setup-test installs it"
            ) from None
    elif shutil.which(program, path=path) is None:
        raise BinaryMissing(f"{program} is not installed: make setup-test installs it")
