"""docs/options.md has each option of the server once, as `--help` describes it."""

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_PAGE = (_ROOT / "docs" / "options.md").read_text(encoding="utf-8")
_END = "-->\n<!-- end -->\n"


def _made(file: Path, page: str) -> subprocess.CompletedProcess[str]:
    file.write_text(page, encoding="utf-8")
    command = [sys.executable, str(_ROOT / "tools" / "make_options.py"), str(file)]
    return subprocess.run(
        command, env={"PYTHONPATH": str(_ROOT)}, capture_output=True, text=True, check=False
    )


def test_the_page_is_what_the_tool_makes(tmp_path: Path) -> None:
    assert _made(tmp_path / "page.md", _PAGE).returncode == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == _PAGE, "run tools/make_options.py"


def test_rows_have_values_defaults_and_other_names() -> None:
    assert _PAGE.count("\n| `--") > 60
    assert "| `--tick-time MS` | 2,000 ms | unit of the session timeouts' limits (tickTime) |" in _PAGE
    assert "| `--tls-client-auth {none,want,need}` | `need` |" in _PAGE
    assert "; also `--max-cnxns` |" in _PAGE
