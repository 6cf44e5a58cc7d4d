"""`zketcd help`."""

import pytest

from zketcd.__main__ import main


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    assert "copy a tree of ZooKeeper into etcd" in capsys.readouterr().out


def test_help_of_a_command_is_what_its_own_option_prints(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for arguments in (["help", "get"], ["get", "--help"]):
        with pytest.raises(SystemExit):
            main(arguments)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert "--hex" in texts[0]


def test_an_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["help", "frob"])
    assert ended.value.code == 2
    assert "'frob'" in capsys.readouterr().err
