"""The documents: their site builds, no link leads nowhere, it has every page, and their counts are right."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cli.commands import COMMANDS
from tests.parts import check_part

ROOT = Path(__file__).resolve().parents[1]
MAKER = ROOT / "tools" / "make_docs.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    subprocess.run([sys.executable, str(MAKER), str(folder)], check=True)
    return folder / "site"


@pytest.mark.timeout(1200)
def test_every_page_is_there(site: Path) -> None:
    folders = ("", "docs/", "docs/decisions/", "proof/**/", "examples/", "bench/*/")
    pages = [page for folder in folders for page in ROOT.glob(f"{folder}*.md")]
    assert len(pages) > 20
    for page in pages:
        assert (site / page.relative_to(ROOT).with_suffix(".html")).is_file()


@pytest.mark.timeout(1200)
def test_nothing_comes_from_other_hosts(site: Path) -> None:
    page = (site / "README.html").read_text()
    assert "operating.html" in page
    assert 'src="http' not in page
    assert 'rel="stylesheet" type="text/css" href="http' not in page


@pytest.mark.timeout(1200)
def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# A page\n[there](elsewhere.md) and [there](#nowhere)\n")
    (tmp_path / "docs" / "site").mkdir(parents=True)
    (tmp_path / "docs" / "site" / "contents.md").write_text("")
    command = [sys.executable, str(MAKER), str(tmp_path / "build"), str(tmp_path)]
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    assert made.returncode == 1
    assert "elsewhere.md" in made.stderr
    assert "nowhere" in made.stderr


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "docs" / "site" / "contents.md").read_text().splitlines()
    for page in ROOT.glob("docs/*.md"):
        assert f"docs/{page.stem}" in contents


def test_every_decision_is_in_the_list() -> None:
    listed = []
    for page in sorted(ROOT.glob("docs/decisions/0*.md")):
        title, status, *_ = page.read_text().split("\n\n")
        number, _, question = title.removeprefix("# ").partition(": ")
        assert number == page.name[:4]
        assert re.fullmatch(r"Status: accepted, \d{4}-\d\d-\d\d\.", status), (page.name, status)
        listed.append(f"* [{number}]({page.name}) {question}")
    assert len(listed) > 30
    check_part("docs/decisions/README.md", "accepted", listed)


def test_every_page_opens_with_the_questions_that_it_answers() -> None:
    pages = {page.name: page.read_text().split("\n\n")[1] for page in ROOT.glob("docs/*.md")}
    assert [name for name, opening in pages.items() if not opening.startswith("This page answers")] == []


def test_every_test_that_a_page_names_is_there() -> None:
    named = {
        (page.name, file)
        for page in (*ROOT.glob("docs/*.md"), *ROOT.glob("proof/**/*.md"), *ROOT.glob("examples/*.md"))
        for file in re.findall(r"(?<![\w/.])(?:tests|examples|proof)/[\w/]+(?:\.py\b|/)", page.read_text())
        if "/NAME" not in file
    }
    assert len(named) > 40
    assert [
        (page, file)
        for page, file in sorted(named)
        if not any((above / file).exists() for above in (ROOT, ROOT / "tests"))
    ] == []


def test_the_list_of_commands_has_their_summaries() -> None:
    lines = (f"* `zketcd {name}`: {command.summary}" for name, command in COMMANDS.items())
    check_part("docs/install.md", "commands", lines)


def test_every_command_that_is_quoted_is_one_of_zketcd() -> None:
    programs = {command.module.partition(".")[0] for command in COMMANDS.values()} - {"zketcd", *COMMANDS}
    quoting = subprocess.check_output(["git", "grep", "-hI", "`[a-z]* [a-z]"], cwd=ROOT, text=True)
    named = re.findall(r"`([a-z]+) ([a-z][a-z-]*)", quoting)
    of_zketcd = [name for program, name in named if program == "zketcd"]
    assert len(of_zketcd) > 100
    assert set(of_zketcd) <= COMMANDS.keys()
    assert [each for each in named if each[0] in programs] == []


@pytest.mark.parametrize(
    "tool", [path.name for path in sorted(ROOT.glob("tools/*.py")) if "__main__" in path.read_text()]
)
def test_the_help_of_a_tool_makes_nothing(tool: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / tool), "--help"]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "usage:" in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


def test_counts_of_planted_faults() -> None:
    planted = [
        tomllib.loads(file.read_text()) for file in ROOT.glob("proof/simulation/planted_faults/*.toml")
    ]
    outside = [fault["tests"] for fault in planted if "tests" in fault]
    following = [tests for tests in outside if tests.startswith("tests/pipeline/follow/")]
    calm, copies = (
        sum(fault.get("world") == world for fault in planted if "tests" not in fault)
        for world in ("calm", "standby")
    )
    worlds = len(planted) - len(outside)
    simulation = " ".join((ROOT / "proof" / "simulation" / "README.md").read_text().split())
    reliability = (ROOT / "docs" / "reliability.md").read_text()
    stormy = worlds - calm - copies
    assert (
        f"There are {stormy} for stormy worlds, {calm} for calm ones and {copies} for copies." in simulation
    )
    assert f"| {worlds - copies} planted faults, each found" in reliability
    assert f"| {copies} planted faults, each found" in reliability
    assert f"| {len(following)} planted faults, each found by these tests" in reliability
