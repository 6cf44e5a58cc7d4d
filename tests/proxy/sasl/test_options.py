"""What SASL's options may not be together, and the files that they name."""

import sys
from pathlib import Path

import pytest

from proxy.config import parse
from proxy.sasl.digest_md5 import secret

BOB = {"bob": secret("bob", "word")}
PROVIDER = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
JAAS = 'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="word"; };'


@pytest.mark.parametrize("source", ["option", "file", "jaas", "toml", "all"])
def test_where_users_come_from(tmp_path: Path, source: str) -> None:
    users = tmp_path / "users"
    users.write_text("bob:word\n")
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(JAAS)
    toml = tmp_path / "zketcd.toml"
    toml.write_text('[zketcd]\nsasl-user = ["bob:word"]\n')
    arguments = {
        "option": ["--sasl-user", "bob:word"],
        "file": ["--sasl-users-file", str(users)],
        "jaas": ["--jaas-file", str(jaas)],
        "toml": ["--config", str(toml)],
    }
    given = arguments.get(source) or [word for words in arguments.values() for word in words]
    assert parse(given).sasl.users == BOB


@pytest.mark.parametrize(
    ("option", "content", "said"),
    [
        ("--sasl-users-file", "", "file: it names no user"),
        ("--sasl-users-file", "# bob:word\n\n", "file: it names no user"),
        ("--zoo-cfg", PROVIDER, "no client could authenticate by SASL: give --jaas-file"),
    ],
)
def test_a_file_without_users_is_no_way_to_start_without_sasl(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, content: str, said: str
) -> None:
    assert not parse([]).sasl.is_on
    file = tmp_path / "file"
    file.write_text(content)
    with pytest.raises(SystemExit) as ended:
        parse([option, str(file)])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--sasl-users-file", "--jaas-file"])
def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path, option: str) -> None:
    file = tmp_path / "file"
    file.write_text(JAAS if option == "--jaas-file" else "bob:word\n", "utf-8-sig")
    assert parse([option, str(file)]).sasl.users == BOB


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
    ("arguments", "said"),
    [
        (["--sasl-user", "secret"], "NAME:PASSWORD"),
        (["--sasl-user", "bob:a", "--sasl-user", "bob:b"], "'bob' is given twice"),
        (["--sasl-keytab", __file__], "--sasl-keytab and --sasl-principal must be given together"),
        (["--sasl-principal", "a/b@C"], "--sasl-keytab and --sasl-principal must be given together"),
        (["--sasl-principal", "zookeeper"], "'zookeeper' is not SERVICE/HOST@REALM"),
        (["--sasl-keytab", "/no/such"], "'/no/such' is not a readable file"),
        (["--sasl-users-file", __file__], f"{__file__}: line 1: "),
        (["--sasl-users-file", sys.executable], f"{sys.executable}: it is not UTF-8"),
        (["--jaas-file", __file__], f"{__file__}: "),
        (["--sasl-super-users", "root"], "--sasl-super-users needs clients that can authenticate"),
        (["--enforce-auth-schemes", "sasl"], "scheme 'sasl' is not available: give --jaas-file"),
        (["--enforce-auth-schemes", "digest,x509"], "scheme 'x509' is not available: give --tls-cert"),
        (["--enforce-auth-schemes", "nonsense"], "scheme 'nonsense' is not available"),
        (["--enforce-auth-schemes", "none,ip"], "none goes with no other scheme"),
        (["--allow-sasl-failed-clients", "maybe"], "'maybe' is neither true nor false"),
    ],
)
def test_what_does_not_go(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert said in last
    assert "secret" not in last


@pytest.mark.parametrize(
    ("given", "enforced"), [("sasl, digest", ("sasl", "digest")), ("none", ()), ("", ())]
)
def test_schemes_that_are_enforced(given: str, enforced: tuple[str, ...]) -> None:
    assert parse(["--sasl-user", "bob:word", "--enforce-auth-schemes", given]).sasl.enforced == enforced


@pytest.mark.parametrize(
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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, enforced: tuple[str, ...], said: str
) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_text(f"{PROVIDER}superUser.1=a\nsuperUser=b\n{text}\n")
    arguments = ["--zoo-cfg", str(file), "--sasl-user", "bob:word"]
    if said:
        with pytest.raises(SystemExit):
            parse(arguments)
        assert said in capsys.readouterr().err
        return
    settings = parse(arguments).sasl
    assert settings.enforced == enforced
    assert settings.super_users == {"a", "b"}
