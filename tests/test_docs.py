"""The site of the documents: it builds, no link leads nowhere, and it has every page."""

from pathlib import Path

import pytest

from tools import make_docs

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    assert make_docs.build(folder / "docs", folder / "site") == 0
    return folder / "site"


def test_every_page_is_there(site: Path) -> None:
    assert {page.with_suffix(".html") for page in make_docs.pages() if page.suffix == ".md"} <= {
        file.relative_to(site) for file in site.rglob("*.html")
    }


def test_nothing_comes_from_other_hosts(site: Path) -> None:
    page = (site / "README.html").read_text()
    assert 'src="http' not in page
    assert '<link rel="stylesheet" type="text/css" href="http' not in page


def test_a_link_that_leads_nowhere_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "README.md").write_text("# A page\n[there](elsewhere.md) and [there](#nowhere)\n")
    (tmp_path / "docs" / "site").mkdir(parents=True)
    monkeypatch.setattr(make_docs, "_ROOT", tmp_path)
    assert make_docs.build(tmp_path / "build" / "docs", tmp_path / "build" / "site") == 1
    told = capfd.readouterr().err
    assert "elsewhere.md" in told
    assert "nowhere" in told


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "docs" / "site" / "contents.md").read_text().splitlines()
    for page in (ROOT / "docs").glob("*.md"):
        assert f"docs/{page.stem}" in contents
    decisions = (ROOT / "docs" / "decisions" / "README.md").read_text()
    for page in (ROOT / "docs" / "decisions").glob("0*.md"):
        title = page.read_text().splitlines()[0].removeprefix("# ").replace(": ", f"]({page.name}) ", 1)
        assert f"* [{title}\n" in decisions
