"""The documents: no link leads nowhere, and their lists and counts are right."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from cli.commands import COMMANDS
from tests.parts import check_part

ROOT = Path(__file__).resolve().parents[1]


def _text_of(page: Path) -> str:
    """Without code, which is no Markdown."""
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", lambda code: re.sub(r"[\[\]()]", "", code[0]), text)


def _anchors_of(page: Path) -> set[str]:
    """Of its headings, as GitHub names them."""
    titles = re.findall(r"^#+ (.*?) *$", _text_of(page), re.MULTILINE)
    shown = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles)
    slugs = [re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in shown]
    return {slug if not (n := slugs[:at].count(slug)) else f"{slug}-{n}" for at, slug in enumerate(slugs)}


def _links_of(page: Path) -> list[tuple[str, Path, str]]:
    """Those to files: as they are written, the file and the anchor."""
    links = []
    for link in re.findall(r"\]\(([^)\s]+)\)", _text_of(page)):
        file, _, anchor = link.partition("#")
        if "://" not in link:
            links.append((link, Path(os.path.normpath(page.parent / file)) if file else page, anchor))
    return links


def _dead_links(root: Path, files: Iterable[str]) -> list[tuple[str, str]]:
    there = {path for name in files for path in (root / name, *(root / name).parents)}
    return [
        (str(page.relative_to(root)), link)
        for page in sorted(there)
        if page.suffix == ".md"
        for link, target, anchor in _links_of(page)
        if target not in there or (anchor and anchor not in _anchors_of(target))
    ]


def test_no_link_leads_nowhere() -> None:
    files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    assert sum(name.endswith(".md") for name in files) > 20
    assert _dead_links(ROOT, files) == []


def test_a_link_leads_to_every_page() -> None:
    pages = {*ROOT.glob("docs/*.md")}
    linked = {
        target for page in (*pages, ROOT / "README.md") for _, target, _ in _links_of(page) if target != page
    }
    assert pages - linked == set()


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
