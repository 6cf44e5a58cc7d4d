"""Build what is installed: a Debian package, a single-file archive, and their bill of materials.

    .venv/bin/python tools/make_packages.py build/packages [--revision N]

The libraries are those of requirements/runtime.txt, taken from the environment that runs this: pip has
checked their wheels by the lock's hashes, and here each file is compared with its wheel's RECORD. Nothing is
downloaded. Both packages are for the Python version and the processor of the machine that builds them. Spark
is in neither (docs/install.md says how to add it).
"""

import argparse
import base64
import compileall
import gzip
import hashlib
import os
import platform
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement

_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(_ROOT))

from proxy.version import VERSION  # noqa: E402
from tools import folders  # noqa: E402

_LOCK = _ROOT / "requirements" / "runtime.txt"
_DEBIAN = _ROOT / "deploy" / "debian"
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_DOC = "usr/share/doc/zketcd"
# Where each file of the repository goes in the Debian package, and with which mode.
_FILES = {
    "deploy/debian/launcher": ("usr/bin/zketcd", 0o755),
    "deploy/debian/zketcd.service": ("usr/lib/systemd/system/zketcd.service", 0o644),
    "deploy/debian/zketcd.toml": ("etc/zketcd/zketcd.toml", 0o644),
    "deploy/debian/copyright": (f"{_DOC}/copyright", 0o644),
    "deploy/monitoring/alerts.yml": (f"{_DOC}/examples/alerts.yml", 0o644),
    "deploy/monitoring/dashboard.json": (f"{_DOC}/examples/dashboard.json", 0o644),
    "requirements/runtime.txt": ("usr/share/zketcd/runtime.txt", 0o644),
    "requirements/pipeline.txt": ("usr/share/zketcd/pipeline.txt", 0o644),
    "requirements/pipeline-small.txt": ("usr/share/zketcd/pipeline-small.txt", 0o644),
    "requirements/grpcio.txt": ("usr/share/zketcd/grpcio.txt", 0o644),
    "requirements/otel.txt": ("usr/share/zketcd/otel.txt", 0o644),
    "requirements/archive.txt": ("usr/share/zketcd/archive.txt", 0o644),
    "requirements/gssapi.txt": ("usr/share/zketcd/gssapi.txt", 0o644),
}
# The documents, in the folders that they have here: their links to each other hold.
_DOCUMENTS = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"),
    *("codec/README.md", "schema/README.md", "proof/**/*.md", "examples/*.md", "bench/**/*.md"),
    *("docs/**/*.md", "docs/**/*.png", "docs/**/*.svg"),
)
# Where each shell looks for completion.
_COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/zketcd",
    "zsh": "usr/share/zsh/vendor-completions/_zketcd",
    "fish": "usr/share/fish/vendor_completions.d/zketcd.fish",
}

_WRITE_COMPLETIONS = """
import sys
from pathlib import Path
from zketcd.completion import file_of, script
for shell in sys.argv[2:]:
    file_of(Path(sys.argv[1]), shell).write_text(script(shell))
"""


class BuildFailed(Exception):
    """The environment is not what the lock says; the message says what to do."""


def make_site(site: Path) -> None:
    """Put the locked libraries, our packages and the completion scripts into a folder to import from."""
    site.mkdir()
    for library, _ in _locked():
        _copy_library(library, site)
    for package in folders.product():
        shutil.copytree(_ROOT / package, site / package, ignore=shutil.ignore_patterns("__pycache__"))
    _make_completions(site / "zketcd" / "completions", site)


def _locked() -> Iterator[tuple[Requirement, str]]:
    """Each library that the lock has for this version of Python, with its lines."""
    for lines in re.findall(r"^[\w.-]+==.*\n(?:    .*\n)*", _LOCK.read_text(), re.MULTILINE):
        library = Requirement(lines.partition("\\")[0])
        if library.marker is None or library.marker.evaluate():
            yield library, lines


def _copy_library(library: Requirement, site: Path) -> None:
    """Copy the files of an installed library, except programs and what was compiled. Raises BuildFailed."""
    try:
        installed = distribution(library.name)
    except PackageNotFoundError:
        raise BuildFailed(f"{library.name} is not installed: run `make setup`") from None
    if installed.version not in library.specifier:
        raise BuildFailed(
            f"{library.name} {installed.version} is installed, not {library.specifier}: run `make setup`"
        )
    for file in installed.files or ():
        if ".." in file.parts or file.suffix == ".pyc":
            continue
        content = file.read_binary()
        if file.hash is not None:
            digest = hashlib.new(file.hash.mode, content).digest()
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
                raise BuildFailed(
                    f"{file} of {library.name} is not as its wheel had it: delete .venv and run `make setup`"
                )
        place = site / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def _make_completions(folder: Path, site: Path) -> None:
    """Run the copy of the command, which offers what it finds next to it: there is no bench."""
    folder.mkdir()
    subprocess.run(
        [sys.executable, "-P", "-c", _WRITE_COMPLETIONS, folder, *_COMPLETIONS],
        check=True,
        cwd=site,
        env={**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"},
    )


def _make_man_page(place: Path, site: Path) -> None:
    """Write the compressed man page, of the commands that the package has."""
    place.parent.mkdir(parents=True)
    page = place.with_suffix("")
    subprocess.run(
        [sys.executable, "-P", _ROOT / "tools" / "make_man_page.py", page],
        check=True,
        env={**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    place.write_bytes(gzip.compress(page.read_bytes(), mtime=0))
    page.unlink()


def make_bill(target: Path) -> Path:
    """Write which libraries are inside, as CycloneDX."""
    bill = target / f"zketcd-{VERSION}.cdx.json"
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "pyproject.toml"  # the tool does not follow `dynamic`
        text = (_ROOT / "pyproject.toml").read_text()
        project.write_text(re.sub(r"(?m)^dynamic = .*$", f'version = "{VERSION}"', text))
        lock = Path(folder) / _LOCK.name
        lock.write_text("".join(lines for _, lines in _locked()))
        subprocess.run(
            [
                sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "requirements", lock,
                "--pyproject", project, "--mc-type", "application", "--output-reproducible",
                "--output-file", bill,
            ],
            check=True,
        )  # fmt: skip
    return bill


def make_archive(site: Path, target: Path) -> Path:
    """Write the single file: any Python of this version runs it."""
    archive = target / f"zketcd-{VERSION}-py{_PYTHON}-{platform.machine()}.pyz"
    subprocess.run(
        [
            sys.executable, "-m", "shiv", "--site-packages", site, "--entry-point", "zketcd.__main__:entry",
            "--python", f"/usr/bin/env python{_PYTHON}", "--reproducible", "--output-file", archive,
        ],
        check=True,
    )  # fmt: skip
    return archive


def make_debs(site: Path, bill: Path, target: Path, revisions: Iterable[int]) -> Iterator[Path]:
    """Write the Debian package in each of its revisions: they hold the same."""
    architecture = subprocess.run(
        ["dpkg", "--print-architecture"], check=True, capture_output=True, text=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory(dir=target) as folder:
        tree = Path(folder)
        tree.chmod(0o755)
        _fill(tree, site, bill)
        files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
        values = {
            "@ARCHITECTURE@": architecture,
            "@PYTHON@": _PYTHON,
            "@SIZE@": str(sum(path.stat().st_size for path in files) // 1024),
        }
        control = (_DEBIAN / "control").read_text()
        for name, value in values.items():
            control = control.replace(name, value)
        meta = tree / "DEBIAN"
        meta.mkdir()
        (meta / "conffiles").write_text("/etc/zketcd/zketcd.toml\n")
        (meta / "md5sums").write_text("".join(_sum(path, tree) for path in files))
        for script in ("postinst", "prerm", "postrm"):
            _copy(_DEBIAN / script, meta / script, 0o755)
        for revision in revisions:
            version = f"{VERSION}-{revision}"
            (meta / "control").write_text(control.replace("@VERSION@", version))
            package = target / f"zketcd_{version}_{architecture}.deb"
            subprocess.run(
                ["dpkg-deb", "--root-owner-group", "-Zzstd", "-z3", "--build", tree, package],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            yield package


def _fill(tree: Path, site: Path, bill: Path) -> None:
    """The files below /: an environment under /opt/zketcd, and what belongs in the system's folders."""
    home = tree / "opt" / "zketcd"
    libraries = home / "lib" / f"python{_PYTHON}" / "site-packages"
    shutil.copytree(site, libraries)
    # A virtual environment is a link to Python and this file. One made here would name this machine's Python.
    (home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    (home / "bin").mkdir()
    (home / "bin" / "python3").symlink_to(Path("/usr/bin") / f"python{_PYTHON}")
    for name, (place, mode) in _FILES.items():
        _copy(_ROOT / name, tree / place, mode)
    for shell, place in _COMPLETIONS.items():
        _copy(site / "zketcd" / "completions" / f"zketcd.{shell}", tree / place, 0o644)
    for document in chain.from_iterable(map(_ROOT.glob, _DOCUMENTS)):
        _copy(document, tree / _DOC / document.relative_to(_ROOT), 0o644)
    _copy(bill, tree / _DOC / "sbom.cdx.json", 0o644)
    _make_man_page(tree / "usr/share/man/man1/zketcd.1.gz", site)
    # Compiled here, since the service may not write there.
    compileall.compile_dir(
        libraries,
        quiet=1,
        stripdir=str(tree),
        prependdir="/",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    for path in tree.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _copy(source: Path, place: Path, mode: int) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)
    place.chmod(mode)


def _sum(path: Path, tree: Path) -> str:
    digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    return f"{digest}  {path.relative_to(tree)}\n"


def main() -> int:
    """Build everything; print the files."""
    parser = argparse.ArgumentParser(description="Build zketcd's Debian package and single-file archive.")
    parser.add_argument("target", type=Path, help="folder for the results")
    parser.add_argument(
        "--revision",
        type=int,
        action="append",
        metavar="N",
        help="revision of the Debian package (default: 1)",
    )
    given = parser.parse_args()
    os.umask(0o022)  # a package's folders are for all users
    target = given.target.resolve()
    target.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=target) as folder:
            site = Path(folder) / "site"
            make_site(site)
            bill = make_bill(target)
            made = [bill, make_archive(site, target), *make_debs(site, bill, target, given.revision or [1])]
    except BuildFailed as error:
        print(f"make_packages: {error}", file=sys.stderr)
        return 1
    for path in made:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
