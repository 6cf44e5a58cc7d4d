"""The shape of the repository: what must hold for every file, now and later."""

import importlib.metadata
import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = ["bench", "codec", "pipeline", "proxy", "schema", "tests"]

# Generated; its source is rpc.proto.
GENERATED = {"proxy.etcd.rpc_pb2"}

# Rooms of tests that have no source room, and single files that are not about one module.
OWN_ROOMS = (
    "tests/harness/",
    "tests/compat/",
    "tests/clients/",
    "tests/faults/",
    "tests/fakes/",
    "tests/fuzz/",
)
ABOUT_OTHER_THINGS = {
    "tests/codec/test_sessions.py": "recorded sessions through framing, packets and records",
    "tests/proxy/etcd/test_fake.py": "the fake etcd of the tests, held against the real one",
}


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


def _contracts() -> dict[str, dict[str, Any]]:
    configuration = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    return {contract["id"]: contract for contract in configuration["tool"]["importlinter"]["contracts"]}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_ours_and_not_one_of_an_installed_distribution(package: str) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin == str(REPOSITORY / package / "__init__.py")


@pytest.mark.parametrize("package", PACKAGES)
def test_no_installed_distribution_claims_our_names(package: str) -> None:
    assert importlib.metadata.packages_distributions().get(package, []) == []


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_every_module_of_the_proxy_is_named_pure_or_shell() -> None:
    contract = _contracts()["proxy-core"]
    named = [*contract["source_modules"], *contract["forbidden_modules"]]
    unnamed = {
        module
        for module in _modules("proxy") - GENERATED
        if not any(module == name or module.startswith(name + ".") for name in named)
        # A package that holds no code of its own may hold both kinds.
        and not (REPOSITORY / module.replace(".", "/") / "__init__.py").is_file()
    }
    assert unnamed == set()


def test_what_is_pure_towards_us_is_pure_towards_the_outside() -> None:
    contracts = _contracts()
    core = set(contracts["proxy-core"]["source_modules"])
    assert set(contracts["pure-outside"]["source_modules"]) == core | {"codec", "schema"}


def test_each_test_file_mirrors_a_source_module() -> None:
    """tests/codec/test_jute.py is about codec/jute.py; test_jute_strings.py may be about it as well."""
    strays = []
    for path in (REPOSITORY / "tests").rglob("test_*.py"):
        relative = path.relative_to(REPOSITORY).as_posix()
        if (
            path.parent == REPOSITORY / "tests"
            or relative.startswith(OWN_ROOMS)
            or relative in ABOUT_OTHER_THINGS
        ):
            continue
        room = REPOSITORY / path.parent.relative_to(REPOSITORY / "tests")
        sources = {source.stem.strip("_") for source in [*room.glob("*.py"), *room.glob("*/")]}
        words = path.stem.removeprefix("test_").split("_")
        if not any("_".join(words[:count]) in sources for count in range(1, len(words) + 1)):
            strays.append(relative)
    assert strays == []


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


@pytest.mark.parametrize("what", _FORBIDDEN)
def test_no_tracked_file_names(what: str) -> None:
    found = []
    for name in _tracked_files():
        content = (REPOSITORY / name).read_bytes()
        if b"\0" in content:
            continue
        found += [
            f"{name}:{number}: {line.strip()}"
            for number, line in enumerate(content.decode().splitlines(), 1)
            if _FORBIDDEN[what].search(line)
        ]
    assert found == []


def test_every_locked_dependency_has_its_hashes() -> None:
    for lock in (REPOSITORY / "requirements").glob("*.txt"):
        requirements = re.split(r"\n(?=\S)", lock.read_text().replace("\\\n", " "))
        bare = [
            line for line in requirements if "==" in line.partition("#")[0] and "--hash=sha256:" not in line
        ]
        assert bare == [], lock.name


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
