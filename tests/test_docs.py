"""The site of the documents: it builds, no link leads nowhere, and it has every page."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAKER = ROOT / "tools" / "make_docs.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    subprocess.run([sys.executable, str(MAKER), str(folder)], check=True, timeout=250)
    return folder / "site"


@pytest.mark.long
def test_every_page_is_there(site: Path) -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/decisions/*.md")]
    assert len(pages) > 20
    for page in pages:
        assert (site / page.relative_to(ROOT).with_suffix(".html")).is_file()


@pytest.mark.long
def test_nothing_comes_from_other_hosts(site: Path) -> None:
    page = (site / "README.html").read_text()
    assert "operating.html" in page
    assert 'src="http' not in page
    assert 'rel="stylesheet" type="text/css" href="http' not in page


@pytest.mark.long
def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# A page\n[there](elsewhere.md) and [there](#nowhere)\n")
    (tmp_path / "docs" / "site").mkdir(parents=True)
    (tmp_path / "docs" / "site" / "contents.md").write_text("")
    command = [sys.executable, str(MAKER), str(tmp_path / "build"), str(tmp_path)]
    made = subprocess.run(command, check=False, capture_output=True, text=True, timeout=250)
    assert made.returncode == 1
    assert "elsewhere.md" in made.stderr
    assert "nowhere" in made.stderr


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "docs" / "site" / "contents.md").read_text().splitlines()
    for page in ROOT.glob("docs/*.md"):
        assert f"docs/{page.stem}" in contents
    decisions = (ROOT / "docs" / "decisions" / "README.md").read_text()
    for page in ROOT.glob("docs/decisions/0*.md"):
        title = page.read_text().splitlines()[0].removeprefix("# ").replace(": ", f"]({page.name}) ", 1)
        assert f"* [{title}\n" in decisions
