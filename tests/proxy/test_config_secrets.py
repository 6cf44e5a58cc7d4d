"""No secret is shown, whatever is wrong with the option that has it."""

import os
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from proxy.config import OPTIONS, parse
from tests.table import one_by_one

pytestmark = pytest.mark.usefixtures("no_environment")

SECRET = "hunter2secret"
# For each option with a secret: a value that is accepted, and one that is not ("" if all are).
_VALUES = {
    "etcd-password": (SECRET, ""),
    "tls-key-password": (SECRET, ""),
    "super-digest": ("hunter2secret:D/InIHSb7yEEbrWz8b9l71RjZJU=", f"super:{SECRET}"),
    "sasl-user": (f"bob:{SECRET}", SECRET),
}
_MISSPELT = {option: option.replace("s", "ss", 1) for option in _VALUES}


@pytest.fixture
def complain(complaint: Callable[..., str]) -> Callable[..., str]:
    """The error of a command line, which shows no secret."""

    def complain(*arguments: str) -> str:
        line = complaint(*arguments)
        assert SECRET not in line
        return line

    return complain


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of options."""
    return tmp_path / "zketcd.toml"


def _variable(option: str) -> str:
    return f"ZKETCD_{option.upper().replace('-', '_')}"


def test_each_option_with_a_secret_is_tried() -> None:
    assert {option.name.removeprefix("--") for option in OPTIONS if option.secret} == set(_VALUES)


@pytest.mark.parametrize("option", _VALUES)
def test_a_misspelt_option(option: str, file: Path, complain: Callable[..., str]) -> None:
    name, value = _MISSPELT[option], _VALUES[option][0]
    asked = f"--{name} (did you mean --{option}?)"
    assert asked in complain(f"--{name}={value}")
    assert asked in complain(f"--{name}", value)
    assert "1 word too many" in complain(value)
    for text in (
        f'{name} = "{value}"',
        f'"{name}" = ["{value}"]',
        f'{name}.a = "{value}"',
        f'[zketcd.{name}]\na="{value}"',
    ):
        file.write_text(f"[zketcd]\n{text}\n")
        assert f"--{name} ({file}, line 2) (did you" in complain("--config", str(file))
    with mock.patch.dict(os.environ, {_variable(name): value}):
        said = complain()
    assert f"unknown environment variable {_variable(name)} (did you mean {_variable(option)}?)" in said


@pytest.mark.parametrize("option", [option for option, (_, wrong) in _VALUES.items() if wrong])
def test_a_wrong_value(option: str, file: Path, complain: Callable[..., str]) -> None:
    wrong = _VALUES[option][1]
    file.write_text(f'[zketcd]\nprefix = "/a"\n{option} = "{wrong}"\n')
    with mock.patch.dict(os.environ, {_variable(option): wrong}):
        found = {
            "": complain(f"--{option}={wrong}"),
            " ": complain(f"--{option}", wrong),
            f"({_variable(option)})": complain(),
        }
    found[f"({file}, line 3)"] = complain("--config", str(file))
    for place, said in found.items():
        assert f"argument --{option}: " in said
        assert place in said


@pytest.mark.parametrize("option", _VALUES)
def test_a_broken_file(option: str, file: Path, complain: Callable[..., str]) -> None:
    value = _VALUES[option][0]
    for line in (
        f'{option} = "{value}',
        f"{option} = {value}",
        f'{option} = "{value}"\n{option} = "{value}"',
        f'{option} "{value}"',
    ):
        file.write_text(f"[zketcd]\n{line}\n")
        assert f"{file}: Couldn't parse TOML file: " in complain("--config", str(file))
    file.write_text(f'{option} = "{value}"\n')
    assert f"belong into a table [zketcd]: {option}" in complain("--config", str(file))
    if option != "sasl-user":  # which may have several values
        file.write_text(f'[zketcd]\n{option} = ["{value}", "{SECRET}"]\n')
        said = complain("--config", str(file))
        assert f"argument --{option}: one value is expected, not a list ({file}, line 2)" in said


@one_by_one(
    ("arguments", "said"),
    [
        (
            ["--etcd-password", SECRET],
            "--etcd-user and --etcd-password or --etcd-password-file must be given",
        ),
        (
            ["--etcd-user", "me", "--etcd-password", SECRET, "--etcd-password-file", __file__],
            "--etcd-password and --etcd-password-file exclude each other",
        ),
        (["--tls-key-password", SECRET], "--tls-key-password needs --tls-cert and --tls-key"),
        (["--sasl-user", f"bob:{SECRET}", "--sasl-user", f"bob:{SECRET}2"], "user 'bob' is given twice"),
        (["--sasl-user", f"bob:{{ha1}}{SECRET}"], "argument --sasl-user: user 'bob': after {ha1} belong 32"),
        *(
            (
                ["--etcd", url],
                "--etcd: give --etcd-user and --etcd-password, not a user and password in a URL",
            )
            for url in (
                f"http://root:{SECRET}@host:2379",
                f"http://root:a,{SECRET}@host:2379",
                f"https://{SECRET}@host",
                f"http://one:2379,root:{SECRET}/@two:2379",
            )
        ),
        ([f"DigestAuthenticationProvider.superDigest=super:{SECRET}"], ", line 2: it is not NAME:HASH"),
        ([f"SASLAuthenticationProvider.superPassword={SECRET}"], ", line 2: give the user super this"),
        ([f"ssl.keyStore.password={SECRET}"], "--tls-key-password needs --tls-cert"),
    ],
)
def test_other_mistakes(
    arguments: list[str], said: str, tmp_path: Path, complain: Callable[..., str]
) -> None:
    """On the command line, or in zoo.cfg."""
    zoo = tmp_path / "zoo.cfg"
    if not arguments[0].startswith("--"):
        zoo.write_text(f"tickTime=2000\n{arguments[0]}\n")
        arguments = ["--zoo-cfg", str(zoo)]
    line = complain(*arguments)
    for part in said.partition(": ") if said.startswith(",") else (said,):
        assert part in line


def test_a_configuration_does_not_print_its_secrets() -> None:
    given = {"etcd-user": "root", **{option: value for option, (value, _) in _VALUES.items()}}
    given |= {"tls-cert": __file__, "tls-key": __file__, "tls-client-auth": "none"}
    config = parse([word for option, value in given.items() for word in (f"--{option}", value)])
    assert SECRET not in repr(config)
    assert set(config.secrets_on_command_line) == {f"--{option}" for option in _VALUES}


def test_what_other_users_of_the_host_cannot_read_is_no_warning(file: Path) -> None:
    file.write_text(f'[zketcd]\nsuper-digest = "{_VALUES["super-digest"][0]}"\n')
    with mock.patch.dict(os.environ, {"ZKETCD_SASL_USER": f"bob:{SECRET}"}):
        config = parse(["--config", str(file)])
    assert config.super_digest
    assert config.secrets_on_command_line == ()


def test_variables_of_kubernetes_and_of_our_tools_are_known_others_are_a_warning() -> None:
    known = ("PORT", "SERVICE_HOST", "PORT_2181_TCP_ADDR", "A_SERVICE_PORT_ADMIN", "JSON", "PATIENCE", "AUTH")
    for name in (*known, "TEST_KILLS"):
        with mock.patch.dict(os.environ, {f"ZKETCD_{name}": "tcp://10.0.0.1:2181"}):
            assert parse([]).unknown_variables == (() if name in known else (f"ZKETCD_{name}",))
