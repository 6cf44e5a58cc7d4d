"""The shape of the repository: what must hold for every file, now and later."""

import ast
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tools import folders

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = [folder for folder in folders.sources() if (REPOSITORY / folder / "__init__.py").is_file()]
# Rooms of tests about the whole server.
OWN_ROOMS = {("compat",), ("clients",), ("faults",)}


_distributions = cache(importlib.metadata.packages_distributions)


@cache
def _tracked_files() -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, capture_output=True, text=True
    )
    return [name for name in listing.stdout.split("\0") if (REPOSITORY / name).is_file()]


def _modules(package: str) -> set[str]:
    """Every module below a package, by its dotted name; packages themselves count by their __init__.py."""
    names = set()
    for path in (REPOSITORY / package).rglob("*.py"):
        parts = path.relative_to(REPOSITORY).with_suffix("").parts
        names.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_ours_and_not_one_of_an_installed_distribution(package: str) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin == str(REPOSITORY / package / "__init__.py")
    assert _distributions().get(package, []) == []


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_the_contracts_name_every_package() -> None:
    """TOML cannot derive its lists of packages."""
    contracts = folders.contracts()
    packages, product = set(PACKAGES), set(folders.product())
    rooms = {f"lab.{name.split('.')[1]}" for name in _modules("lab") if "." in name}
    linter = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert set(linter["root_packages"]) == packages
    assert set(contracts["no-circles"]["ancestors"]) == packages - {"bench", "tests"}
    for name in ("nothing-needs-proof", "no-grpcio", "no-opentelemetry"):
        assert set(contracts[name]["source_modules"]) == product
    assert set(contracts["server-without-spark"]["source_modules"]) == product - {"pipeline", "zketcd"}
    for name, forbidden in {
        "nothing-needs-proof": packages - product,
        "history-alone": packages - {"proof"},
        "oracle-alone": packages - {"lab"} | rooms - {"lab.oracle"},
    }.items():
        assert set(contracts[name]["forbidden_modules"]) == forbidden


def test_purity_is_a_place() -> None:
    """`proxy.state` is not listed one module at a time."""
    sources = folders.contracts()["pure"]["source_modules"]
    assert "proxy.state" in sources
    assert not [name for name in sources if name.startswith("proxy.state.")]


@pytest.mark.parametrize("package", folders.product())
def test_what_calls_itself_pure_is_checked(package: str) -> None:
    sources = folders.contracts()["pure"]["source_modules"]
    claims = [
        name
        for name in sorted(_modules(package))
        if (path := REPOSITORY / f"{name.replace('.', '/')}.py").is_file()
        and re.search(r"(^|[.:]\s)Pure[.:]", ast.get_docstring(ast.parse(path.read_text())) or "", re.M)
    ]
    assert [name for name in claims if not f"{name}.".startswith(tuple(f"{each}." for each in sources))] == []


def test_no_room_of_the_proxy_is_left_out_of_the_layers() -> None:
    layers = folders.contracts()["layers"]
    named = [name.strip() for layer in layers["layers"] for name in layer.split("|")]
    assert layers["exhaustive"]
    map_of_packages = (REPOSITORY / "proxy" / "__init__.py").read_text().partition("The packages, ")[2]
    assert re.findall(r"^(\w+) {2,}\S", map_of_packages, re.MULTILINE) == named


def test_imports_for_type_checking_count_as_imports() -> None:
    """Else `if TYPE_CHECKING` would hide circles."""
    linter = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert linter["exclude_type_checking_imports"] is False


# Modules of proxy.log that work without a proxy: programs that read or write a tree offline may use them.
OFFLINE = {
    "follow",
    "follow.catch_up",
    "foreign",
    "load",
    "load.pages",
    "load.replay",
    "load.start",
    "reads",
    "record",
    "seal",
    "slices",
}


def test_of_the_log_the_pipeline_uses_what_works_without_a_proxy() -> None:
    forbidden = set(folders.contracts()["pipeline-on-etcd"]["forbidden_modules"])
    of_log = {name for name in _modules("proxy") if name.startswith("proxy.log.")}
    allowed = {name for name in of_log if not {name, name.rpartition(".")[0]} & forbidden}
    assert allowed == {f"proxy.log.{name}" for name in OFFLINE}


_MAPPED = 12  # modules; smaller rooms may do without
_ROOMS = [
    file.parent
    for file in sorted((REPOSITORY / "proxy").rglob("__init__.py"))
    if len(list(file.parent.glob("*.py"))) > _MAPPED or "In which order to read" in file.read_text()
]


@pytest.mark.parametrize("folder", _ROOMS, ids=lambda folder: folder.name)
def test_a_room_of_many_modules_names_them(folder: Path) -> None:
    """In its map; or in its table, where it imports them."""
    text = (folder / "__init__.py").read_text()
    lists = re.findall(r"^(\w+(?:, \w+)*) {2,}\S", text, re.MULTILINE)
    named = [name for each in lists for name in each.split(", ")]
    there = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    there |= {path.parent.name for path in folder.glob("*/__init__.py")}
    package = str(folder.relative_to(REPOSITORY)).replace("/", ".")
    imported = set(re.findall(rf"^from {package}\.(\w+) ", text, re.MULTILINE))
    assert len(named) == len(set(named))
    assert set(named) | imported == there
    for file, name in re.findall(r"^ {4}\w+\.(?=.* ([\w/]+\.py)$)(\w+)", text, re.MULTILINE):
        assert f"def {name}(" in (folder / file).read_text(), (file, name)


def test_maps_name_modules_that_exist() -> None:
    """A list of a package's docstring is a map if most of its names are its modules or packages."""
    for file in (path for package in PACKAGES for path in (REPOSITORY / package).rglob("__init__.py")):
        there = {path.stem for path in file.parent.iterdir()}
        for paragraph in file.read_text().split("\n\n"):
            named = set(re.findall(r"^(?:\* `)?(\w+)(?:\.py)?(?:` | {2,})\S", paragraph, re.MULTILINE))
            if 2 * len(named & there) > len(named):
                assert named <= there, (file, named - there)


def test_each_folder_of_tests_names_the_room_that_it_tests() -> None:
    """Tests of codec/ are in tests/codec/, in one file or several for a module as it helps."""
    rooms = {
        path.parent.relative_to(REPOSITORY / "tests") for path in (REPOSITORY / "tests").rglob("test_*.py")
    }
    strays = [room for room in rooms if room.parts[:1] not in OWN_ROOMS and not (REPOSITORY / room).is_dir()]
    assert strays == []


def test_there_is_one_text_of_the_license() -> None:
    """`reuse lint` looks for it in LICENSES, other readers in LICENSE."""
    text = (REPOSITORY / "LICENSE").read_text()
    assert [file.read_text() for file in (REPOSITORY / "LICENSES").iterdir()] == [text]


# Names of package registries' hosts, in pieces: this file is checked as well.
_FORBIDDEN = {
    "the host of a package registry": re.compile(
        "|".join(
            [r"pypi\." + "org", r"python" + r"hosted\.org", r"deb\.debian" + r"\.org", r"npmjs\." + "org"]
        )
    ),
    "a pip option that names an index": re.compile(
        r"--(extra-)?index" + r"-url[= ]\S|--trusted" + r"-host[= ]\S"
    ),
    "a path outside the repository": re.compile(r"/(work|root|home)" + r"/[a-z]|\.\./" + r"shared\b"),
}


def test_no_tracked_file_names_what_only_one_machine_has() -> None:
    found = []
    for name in _tracked_files():
        content = (REPOSITORY / name).read_bytes()
        if b"\0" in content:
            continue
        text = content.decode()
        found += [
            f"{name}:{text.count(chr(10), 0, each.start()) + 1}: {what}: {each[0]}"
            for what, pattern in _FORBIDDEN.items()
            for each in pattern.finditer(text)
        ]
    assert found == []


def test_every_locked_dependency_has_its_hashes() -> None:
    for lock in (REPOSITORY / "requirements").glob("*.txt"):
        requirements = re.split(r"\n(?=\S)", lock.read_text().replace("\\\n", " "))
        bare = [
            line for line in requirements if "==" in line.partition("#")[0] and "--hash=sha256:" not in line
        ]
        assert bare == [], lock.name


def test_every_library_that_is_imported_is_asked_for_by_name() -> None:
    """One that only comes with another may be missing with another version of Python."""
    requirements = [path.read_text() for path in (REPOSITORY / "requirements").glob("*.in")]
    asked = set(re.findall(r"^[a-z][\w.-]*", "\n".join(requirements), re.MULTILINE))
    known = {*sys.stdlib_module_names, *PACKAGES}
    owners = _distributions()
    imported: set[str] = set()
    for name in _tracked_files():
        if name.startswith(tuple(f"{package}/" for package in PACKAGES)) and name.endswith(".py"):
            source = (REPOSITORY / name).read_text()
            imported.update(
                re.findall(r"^ *(?:from|import) (\w+)[\w.]*(?: import .*)?$", source, re.MULTILINE)
            )
    assert "typing_extensions" in imported
    missing = [
        module
        for module in sorted((imported - known) & owners.keys())
        if asked.isdisjoint(owner.lower().replace("_", "-") for owner in owners[module])
    ]
    assert missing == []


def test_kazoo_and_its_source_are_one_version() -> None:
    versions = {
        found.group(1)
        for name in ("dev.txt", "kazoo-source.txt")
        if (
            found := re.search(
                r"^kazoo==(\S+)", (REPOSITORY / "requirements" / name).read_text(), re.MULTILINE
            )
        )
    }
    assert len(versions) == 1


def test_files_that_documents_name_are_there() -> None:
    """Paths in backticks, from the repository's root or, as in docs/compatibility.md, below tests/."""
    tracked = _tracked_files()
    there = {*tracked, *(str(folder) for name in tracked for folder in Path(name).parents)}
    named = re.compile(rf"`((?:{'|'.join((*folders.sources(), 'docs'))})/[\w./-]+)(?:::\w+)?`")
    found = 0
    for name in tracked:
        if name.endswith(".md") and name != "CHANGELOG.md":
            for path in named.findall((REPOSITORY / name).read_text()):
                if "/NAME" in path:
                    continue  # stands for any name
                found += 1
                path = path.rstrip("/")
                assert path in there or f"tests/{path}" in there, (name, path)
    assert found > 100
