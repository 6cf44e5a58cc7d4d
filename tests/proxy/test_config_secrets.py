"""No secret is shown, whatever is wrong with the option that has it."""

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from proxy.config import OPTIONS, parse

SECRET = "hunter2secret"
# For each option with a secret: a value that is accepted, and one that is not ("" if all are).
_VALUES = {
    "etcd-password": (SECRET, ""),
    "tls-key-password": (SECRET, ""),
    "super-digest": ("hunter2secret:D/InIHSb7yEEbrWz8b9l71RjZJU=", f"super:{SECRET}"),
    "sasl-user": (f"bob:{SECRET}", SECRET),
}
_MISSPELT = {option: option.replace("s", "ss", 1) for option in _VALUES}


@pytest.fixture(autouse=True)
def _no_environment() -> Iterator[None]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ZKETCD_")}
    with mock.patch.dict(os.environ, kept, clear=True):
        yield


def _complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The error of a command line, which shows no secret."""
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    (line,) = printed.err.splitlines()
    return line


def _variable(option: str) -> str:
    return f"ZKETCD_{option.upper().replace('-', '_')}"


def test_each_option_with_a_secret_is_tried() -> None:
    assert {option.name.removeprefix("--") for option in OPTIONS if option.secret} == set(_VALUES)


@pytest.mark.parametrize("option", _VALUES)
def test_a_misspelt_option(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, value = _MISSPELT[option], _VALUES[option][0]
    asked = f"--{name} (did you mean --{option}?)"
    assert asked in _complaint(capsys, f"--{name}={value}")
    assert asked in _complaint(capsys, f"--{name}", value)
    assert "1 word too many" in _complaint(capsys, value)
    file = tmp_path / "zketcd.toml"
    for text in (
        f'{name} = "{value}"',
        f'"{name}" = ["{value}"]',
        f'{name}.a = "{value}"',
        f'[zketcd.{name}]\na="{value}"',
    ):
        file.write_text(f"[zketcd]\n{text}\n")
        assert f"--{name} ({file}, line 2) (did you" in _complaint(capsys, "--config", str(file))
    with mock.patch.dict(os.environ, {_variable(name): value}):
        said = _complaint(capsys)
    assert f"unknown environment variable {_variable(name)} (did you mean {_variable(option)}?)" in said


@pytest.mark.parametrize("option", [option for option, (_, wrong) in _VALUES.items() if wrong])
def test_a_wrong_value(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = _VALUES[option][1]
    assert f"argument --{option}: " in _complaint(capsys, f"--{option}={wrong}")
    assert f"argument --{option}: " in _complaint(capsys, f"--{option}", wrong)
    file = tmp_path / "zketcd.toml"
    file.write_text(f'[zketcd]\nprefix = "/a"\n{option} = "{wrong}"\n')
    said = _complaint(capsys, "--config", str(file))
    assert f"argument --{option}: " in said
    assert f"({file}, line 3)" in said
    with mock.patch.dict(os.environ, {_variable(option): wrong}):
        said = _complaint(capsys)
    assert f"argument --{option}: " in said
    assert f"({_variable(option)})" in said


@pytest.mark.parametrize("option", _VALUES)
def test_a_broken_file(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = _VALUES[option][0]
    file = tmp_path / "zketcd.toml"
    for line in (
        f'{option} = "{value}',
        f"{option} = {value}",
        f'{option} = "{value}"\n{option} = "{value}"',
        f'{option} "{value}"',
    ):
        file.write_text(f"[zketcd]\n{line}\n")
        assert f"{file}: Couldn't parse TOML file: " in _complaint(capsys, "--config", str(file))
    file.write_text(f'{option} = "{value}"\n')
    assert f"belong into a table [zketcd]: {option}" in _complaint(capsys, "--config", str(file))


@pytest.mark.parametrize("option", [option for option in _VALUES if option != "sasl-user"])
def test_a_list_in_place_of_a_value(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "zketcd.toml"
    file.write_text(f'[zketcd]\n{option} = ["{_VALUES[option][0]}", "{SECRET}"]\n')
    said = _complaint(capsys, "--config", str(file))
    assert f"argument --{option}: one value is expected, not a list ({file}, line 2)" in said


_URL = "argument --etcd: give --etcd-user and --etcd-password, not a user and password in a URL"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--etcd-password", SECRET], "--etcd-user and --etcd-password must be given together"),
        (["--tls-key-password", SECRET], "--tls-key-password needs --tls-cert and --tls-key"),
        (["--sasl-user", f"bob:{SECRET}", "--sasl-user", f"bob:{SECRET}2"], "user 'bob' is given twice"),
        (["--sasl-user", f"bob:{{ha1}}{SECRET}"], "argument --sasl-user: user 'bob': after {ha1} belong 32"),
        (["--etcd", f"http://root:{SECRET}@host:2379"], _URL),
        (["--etcd", f"http://root:a,{SECRET}@host:2379"], _URL),
        (["--etcd", f"https://{SECRET}@host"], _URL),
        (["--etcd", f"http://one:2379,root:{SECRET}/@two:2379"], _URL),
    ],
)
def test_other_mistakes(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in _complaint(capsys, *arguments)


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (f"DigestAuthenticationProvider.superDigest=super:{SECRET}", ", line 2: ", "it is not NAME:HASH"),
        (f"SASLAuthenticationProvider.superPassword={SECRET}", ", line 2: ", "give the user super this"),
        (f"ssl.keyStore.password={SECRET}", "", "--tls-key-password needs --tls-cert"),
    ],
)
def test_zoo_cfg(
    text: str, place: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_text(f"tickTime=2000\n{text}\n")
    line = _complaint(capsys, "--zoo-cfg", str(file))
    assert said in line
    assert not place or f"{file}{place}" in line


def test_a_configuration_does_not_print_its_secrets() -> None:
    given = {"etcd-user": "root", **{option: value for option, (value, _) in _VALUES.items()}}
    given |= {"tls-cert": __file__, "tls-key": __file__, "tls-client-auth": "none"}
    config = parse([word for option, value in given.items() for word in (f"--{option}", value)])
    assert SECRET not in repr(config)
    assert set(config.secrets_on_command_line) == {f"--{option}" for option in _VALUES}


def test_what_other_users_of_the_host_cannot_read_is_no_warning(tmp_path: Path) -> None:
    file = tmp_path / "zketcd.toml"
    file.write_text(f'[zketcd]\nsuper-digest = "{_VALUES["super-digest"][0]}"\n')
    with mock.patch.dict(os.environ, {"ZKETCD_SASL_USER": f"bob:{SECRET}"}):
        config = parse(["--config", str(file)])
    assert config.super_digest
    assert config.secrets_on_command_line == ()


@pytest.mark.parametrize(
    "name", ["PORT", "SERVICE_HOST", "PORT_2181_TCP_ADDR", "A_SERVICE_PORT_ADMIN", "JSON", "PATIENCE"]
)
def test_variables_of_kubernetes_and_of_our_tools_are_known(name: str) -> None:
    with mock.patch.dict(os.environ, {f"ZKETCD_{name}": "tcp://10.0.0.1:2181"}):
        assert parse([]).unknown_variables == ()


def test_a_variable_like_no_option_is_a_warning() -> None:
    with mock.patch.dict(os.environ, {"ZKETCD_TEST_KILLS": "3"}):
        assert parse([]).unknown_variables == ("ZKETCD_TEST_KILLS",)
