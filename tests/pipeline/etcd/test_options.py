"""How the pipeline reaches etcd: the options of the command line, the environment and Spark."""

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.addresses import is_in_etcd
from pipeline.etcd.options import Connection
from pipeline.main import parser
from pipeline.options import ADD_ARGUMENTS, check_trees
from proxy.options.etcd import DEFAULTS


def _parsed(*arguments: str) -> Connection:
    return Connection.from_arguments(parser("lost").parse_args(["x", *arguments]))


def test_the_same_options_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZKETCD_ETCD_USER", "me")
    given = _parsed("--etcd", "http://e:1", "--etcd-password", "word", "--etcd-transport", "grpcio")
    assert given == Connection(
        "http://e:1", access=replace(DEFAULTS, user="me", password="word", transport="grpcio")
    )
    assert Connection.from_options(given.options()) == given
    assert Connection.from_options({"etcd": "http://e:1"}) == Connection("http://e:1")


def test_the_embedded_etcd_is_found_by_its_data_directory() -> None:
    there = "unix:///there/sockets/client:0"
    assert _parsed("--data-dir", "/there").etcd == there
    assert _parsed("--etcd", "embedded", "--data-dir", "/there").etcd == there
    assert _parsed("--etcd", "http://e:1", "--data-dir", "/there").etcd == "http://e:1"
    url = "etcd://embedded/p"
    given = parser("inspect").parse_args([url, "--data-dir", "/there"])
    assert Connection.from_url(url, given) == Connection(there, "/p")
    given = parser("inspect").parse_args([url])
    assert Connection.from_url(url, given) == Connection(f"unix://{Path.cwd()}/data/sockets/client:0", "/p")
    with pytest.raises(ValueError, match="--etcd is missing"):
        _parsed()


def test_another_servers_file_names_its_tree_and_its_access(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ZKETCD_ETCD_USER", "ours")
    file = tmp_path / "north.toml"
    url = f"config:{file}"
    given = parser("inspect").parse_args([url])
    file.write_text(
        '[zketcd]\netcd = "http://n:1"\nprefix = "/n"\netcd-user = "me"\netcd-password = "word"\n'
    )
    access = replace(DEFAULTS, user="me", password="word")
    assert is_in_etcd(url)
    assert Connection.from_url(url, given) == Connection("http://n:1", "/n", access)
    file.write_text('[zketcd]\ndata-dir = "/there"\n')
    assert Connection.from_url(url, given) == Connection("unix:///there/sockets/client:0")
    file.unlink()
    with pytest.raises(OSError, match=r"north\.toml"):
        Connection.from_url(url, given)


def test_the_password_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("word\n")
    given = _parsed("--etcd", "http://e:1", "--etcd-user", "me", "--etcd-password-file", str(file))
    assert given.access.password_file == str(file)
    assert Connection.from_options(given.options()) == given
    with pytest.raises(ValueError, match="--etcd-password and --etcd-password-file exclude each other"):
        Connection.from_options({**given.options(), "etcd-password": "word"})
    file.write_text("")
    with pytest.raises(ValueError, match="it is empty"):
        Connection.from_options(given.options())


def test_every_command_takes_user_and_password_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A password on a command line shows in the list of processes."""
    monkeypatch.setenv("ZKETCD_ETCD_USER", "me")
    monkeypatch.setenv("ZKETCD_ETCD_PASSWORD", "word")
    url = "etcd://e:1/p"
    one = ["x", "--etcd", "http://e:1"]
    trees = {"import": one, "export": one, "follow": one, "lost": one, "verify": ["x", url], "inspect": [url]}
    assert trees.keys() == ADD_ARGUMENTS.keys()
    for command, words in trees.items():
        given = parser(command).parse_args(words)
        made = Connection.from_url(url, given) if url in words else Connection.from_arguments(given)
        assert (made.access.user, made.access.password) == ("me", "word"), command


def test_the_servers_file_says_where_etcd_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "zketcd.toml"
    file.write_text(
        '[zketcd]\netcd = "http://e:1"\netcd-user = "me"\netcd-password = "word"\nlisten = ":1"\n'
        'archive = "/none"\nstandby-within = 9\n'
    )
    monkeypatch.setenv("ZKETCD_CONFIG", str(file))
    monkeypatch.setenv("ZKETCD_ETCD_USER", "another")
    given = _parsed("--prefix", "/p")
    assert given == Connection("http://e:1", "/p", access=replace(DEFAULTS, user="another", password="word"))
    assert parser("export").parse_args(["x"]).archive is None
    assert parser("follow").parse_args(["x"]).standby_within == 0
    verify = parser("verify").parse_args(["x", "y"])
    check_trees(verify, "x", "y")  # what the file has is not asked for
    for text in ("", "[zketcd"):
        file.write_text(text)
        if not text:
            file.unlink()
        with pytest.raises(SystemExit):
            parser("verify").parse_args(["x", "y"])
        assert str(file) in capsys.readouterr().err
