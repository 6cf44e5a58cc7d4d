"""Every program that tests look for is one that the set-up installs, so that a fresh machine has it too.

Programs are looked for by `find_program`, `shutil.which`, ctypes, or `command -v`. Each must be printed by
`tools/install_system_packages.sh --programs` for the names that the Makefile passes to that script, or be in
every Debian.
"""

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.servers import BinaryMissing
from lab.servers.etcd import VERSIONS
from proxy.etcd.versions import warnings
from tools import folders

REPOSITORY = Path(__file__).resolve().parents[1]
INSTALLER = REPOSITORY / "tools" / "install_system_packages.sh"
_LOOKS = re.compile(r"(?:find_program|which|CDLL)\(\s*\"([\w.-]+)\"|command -v ([\w.-]+)")
# Of packages that Debian marks as essential: util-linux, dpkg, apt.
ESSENTIAL = {"apt-get", "dpkg-deb", "nsenter", "setpriv", "unshare"}
OUR_OWN = {"zketcd"}


def needed() -> set[str]:
    """Programs that are looked for."""
    files = [path for folder in folders.sources() for path in (REPOSITORY / folder).rglob("*.py")]
    files += [*(REPOSITORY / "tools").glob("*.sh"), REPOSITORY / "Makefile", REPOSITORY / ".ci" / "run"]
    return {one or other for path in files for one, other in _LOOKS.findall(path.read_text())}


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


def test_everything_that_is_looked_for_is_installed_by_the_set_up() -> None:
    looked_for = needed()
    assert looked_for - installed() - ESSENTIAL - OUR_OWN == set()
    # Else the search finds nothing.
    assert {"etcdctl", "java", "libzookeeper_mt.so.2", "krb5-config", *ESSENTIAL} <= looked_for


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
    described = (REPOSITORY / "CONTRIBUTING.md").read_text()
    assert [package for package in packages if f"`{package}`" not in described] == []


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
