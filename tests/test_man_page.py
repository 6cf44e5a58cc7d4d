"""The man page: sound for mandoc, and with every option of every command."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from cli.commands import available
from lab.servers.process import find_program

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a checkout."""
    file = tmp_path_factory.mktemp("man") / "zketcd.1"
    subprocess.run(
        [sys.executable, "tools/make_man_page.py", file],
        check=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "SOURCE_DATE_EPOCH": "86400"},
    )
    return file


def test_it_has_each_command_with_its_options(page: Path) -> None:
    text = page.read_text().replace("\\-", "-")
    assert '.TH ZKETCD 1 "1970-01-02" ' in text
    sections = dict(section.split("\n", 1) for section in text.split("\n.SH ")[1:])
    for name, command in available().items():
        section = sections[f"ZKETCD {name}".upper()]
        for action in import_module(command.module).parser(name)._actions:
            for option in set(action.option_strings) - {"-h", "--help"}:
                assert option in section
    assert "(default: None)" not in text
    assert "(default: 127.0.0.1:2181)" in " ".join(text.split())


@pytest.mark.real
def test_mandoc_finds_nothing_to_complain_of(page: Path) -> None:
    program = find_program("mandoc", "make test installs it where it may use apt")
    checked = subprocess.run([program, "-T", "lint", page], check=False, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    shown = subprocess.run([program, "-T", "ascii", page], check=True, capture_output=True, text=True).stdout
    assert "ZKETCD(1)" in shown
