"""Completion scripts: made by shtab from the programs' own parsers, and understood by the shell."""

import subprocess
import sys
from pathlib import Path

import pytest

from zketcd import completion
from zketcd.__main__ import main

# What bash would offer: the script's function is called as bash calls it at the Tab key.
_COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_shtab_zketcd
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("completion") / "zketcd.bash"
    file.write_text(completion.script("bash"))
    return file


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["zketcd", "exp"], {"export"}),
        (["zketcd", "ver"], {"verify"}),
        (["zketcd", "log", "--ta"], {"--tail"}),
        (["zketcd", "serve", "--etcd-c"], {"--etcd-ca", "--etcd-cert"}),
        (["zketcd", "completion", ""], {"bash", "zsh", "fish"}),
    ],
)
def test_bash_offers(bash: Path, words: list[str], offered: set[str]) -> None:
    printed = subprocess.run(
        ["bash", "-c", _COMPLETE, "bash", bash, *words], check=True, capture_output=True, text=True
    ).stdout
    assert set(printed.split()) == offered


@pytest.mark.long
@pytest.mark.parametrize(("shell", "head"), [("zsh", "#compdef zketcd"), ("fish", "complete ")])
def test_other_shells_know_all_commands(shell: str, head: str) -> None:
    script = completion.script(shell)
    assert head in script
    assert "raise-level" in script
    assert "snapshot-log-bytes" in script


def test_a_package_prints_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(completion, "_FILES", tmp_path)
    (tmp_path / "zketcd.fish").write_text("complete -c zketcd\n")
    assert main(["completion", "fish"]) == 0
    assert capsys.readouterr().out == "complete -c zketcd\n"


def test_without_shtab_a_checkout_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "zsh"]) == 2
    assert "make setup-dev" in capsys.readouterr().err
