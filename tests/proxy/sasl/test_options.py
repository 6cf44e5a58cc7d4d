"""What SASL's options may not be together, and the files that they name."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.config import parse
from proxy.sasl.digest_md5 import secret
from tests.table import one_by_one

BOB = {"bob": secret("bob", "word")}
PROVIDER = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
JAAS = 'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="word"; };'


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte order mark"])
def test_where_users_come_from(tmp_path: Path, mark: str) -> None:
    users, jaas, toml = (tmp_path / name for name in ("users", "jaas.conf", "zketcd.toml"))
    users.write_text(f"{mark}bob:word\n")
    jaas.write_text(mark + JAAS)
    toml.write_text('[zketcd]\nsasl-user = ["bob:word"]\n')
    sources = (
        ["--sasl-user", "bob:word"],
        ["--sasl-users-file", str(users)],
        ["--jaas-file", str(jaas)],
        ["--config", str(toml)],
    )
    for given in (*sources, [word for words in sources for word in words]):
        assert parse(given).sasl.users == BOB


@pytest.mark.parametrize(
    ("option", "content", "said"),
    [
        ("--sasl-users-file", "", "file: it names no user"),
        ("--sasl-users-file", "# bob:word\n\n", "file: it names no user"),
        ("--sasl-users-file", "secret", "file: line 1: "),
        ("--jaas-file", "secret", "file: "),
        ("--zoo-cfg", PROVIDER, "no client could authenticate by SASL: give --jaas-file"),
    ],
)
def test_a_file_without_users_is_no_way_to_start_without_sasl(
    tmp_path: Path, option: str, content: str, said: str, complaint: Callable[..., str]
) -> None:
    assert not parse([]).sasl.is_on
    file = tmp_path / "file"
    file.write_text(content)
    line = complaint(option, str(file))
    assert said in line
    assert "secret" not in line


def test_a_keytab_that_a_jaas_file_names_is_no_named_pipe(
    tmp_path: Path, complaint: Callable[..., str]
) -> None:
    """The start waited for a process that writes into it."""
    os.mkfifo(tmp_path / "pipe")
    jaas = tmp_path / "jaas.conf"
    options = f'useKeyTab=true keyTab="{tmp_path}/pipe" principal="zookeeper/h@REALM"'
    jaas.write_text(f"Server {{ com.sun.security.auth.module.Krb5LoginModule required {options}; }};")
    assert "is a named pipe" in complaint("--jaas-file", str(jaas))


def test_kerberos() -> None:
    settings = parse(
        [
            *("--sasl-keytab", __file__, "--sasl-principal", "zookeeper/h@REALM"),
            *("--kerberos-remove-realm", "true", "--sasl-super-users", "root, amy"),
        ]
    ).sasl
    assert (settings.keytab, settings.principal) == (__file__, "zookeeper/h@REALM")
    assert settings.naming.name_of("bob@REALM") == "bob"
    assert settings.super_users == {"root", "amy"}


@pytest.mark.parametrize(
    ("given", "enforced"), [("sasl, digest", ("sasl", "digest")), ("none", ()), ("", ())]
)
def test_schemes_that_are_enforced(given: str, enforced: tuple[str, ...]) -> None:
    assert parse(["--sasl-user", "bob:word", "--enforce-auth-schemes", given]).sasl.enforced == enforced


@one_by_one(
    ("text", "enforced", "said"),
    [
        ("sessionRequireClientSASLAuth=true", ("sasl",), ""),
        ("enforce.auth.enabled=true\nenforce.auth.schemes=digest,sasl", ("digest", "sasl"), ""),
        ("enforce.auth.enabled=false\nenforce.auth.schemes=sasl", (), ""),
        ("enforce.auth.enabled=true", (), "enforce.auth.schemes does not say by what"),
        ("requireClientAuthScheme=sasl", (), "--enforce-auth-schemes sasl refuses them"),
        ("requireClientAuthScheme=sasl\nsessionRequireClientSASLAuth=true", ("sasl",), ""),
    ],
)
def test_zoo_cfg(
    tmp_path: Path, text: str, enforced: tuple[str, ...], said: str, complaint: Callable[..., str]
) -> None:
    file = tmp_path / "file"
    file.write_text(f"{PROVIDER}superUser.1=a\nsuperUser=b\n{text}\n")
    arguments = ["--zoo-cfg", str(file), "--sasl-user", "bob:word"]
    if said:
        assert said in complaint(*arguments)
        return
    settings = parse(arguments).sasl
    assert settings.enforced == enforced
    assert settings.super_users == {"a", "b"}
