"""Which mechanism a client gets, what a start logs about Kerberos, and names of principals in ACLs."""

import sys

import pytest

from lab.servers import Kdc
from proxy.sasl.digest_md5 import DigestMd5, secret
from proxy.sasl.exchange import Failed
from proxy.sasl.gssapi_server import Credentials, Gssapi, Missing
from proxy.sasl.login import Login
from proxy.sasl.options import SaslSettings
from proxy.sasl.principal import Naming, realm_of
from tests.table import one_by_one

USERS = {"bob": secret("bob", "word")}


def test_the_first_token_shows_the_mechanism() -> None:
    login = Login(SaslSettings(USERS))
    assert [type(login.begin(token)) for token in (b"", b"ticket")] == [DigestMd5, DigestMd5]
    assert login.threads is None
    login.close()


def test_no_two_nonces_are_equal() -> None:
    login = Login(SaslSettings(USERS))
    challenges = [login.begin(b"").step(b"").token for _ in range(100)]
    assert len(set(challenges)) == 100


def test_without_users_nobody_proves_anything() -> None:
    with pytest.raises(Failed, match="no mechanism"):
        Login(SaslSettings()).begin(b"")


def test_without_the_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(Missing, match=r"^--sasl-keytab needs python-gssapi.*make setup-gssapi` installs it$"):
        Login(SaslSettings({}, "/no/such", "zookeeper/h@R"))


def test_with_a_keytab_both_are_there(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gssapi")
    for name, value in kdc.client_environment().items():
        monkeypatch.setenv(name, value)
    keytab = str(kdc.server_keytab)
    login = Login(SaslSettings(USERS, keytab, kdc.service, Naming()))
    assert [type(login.begin(token)) for token in (b"", b"ticket")] == [DigestMd5, Gssapi]
    login.close()
    only = Login(SaslSettings({}, keytab, kdc.service, Naming()))
    assert isinstance(only.begin(b""), Gssapi)
    only.close()
    for file, principal in (("/no/such", kdc.service), (keytab, "zookeeper/elsewhere@R")):
        with pytest.raises(Missing, match=f"^--sasl-keytab {file}: no key of {principal}: ") as missing:
            Credentials(file, principal)
        assert "\n" not in str(missing.value)


@one_by_one(
    ("principal", "whole", "no_host", "no_realm", "neither"),
    [
        ("bob", "bob", "bob", "bob", "bob"),
        ("bob@HERE", "bob@HERE", "bob@HERE", "bob", "bob"),
        ("bob/h@HERE", "bob/h@HERE", "bob@HERE", "bob/h", "bob"),
        ("bob/h", "bob/h", "bob/h", "bob/h", "bob/h"),
        ("bob@THERE", *["bob@THERE"] * 4),
        ("bob/h@THERE", *["bob/h@THERE"] * 4),
        ("bob/h/i@HERE", *["bob/h/i@HERE"] * 4),
    ],
)
def test_names(principal: str, whole: str, no_host: str, no_realm: str, neither: str) -> None:
    told = [
        Naming("HERE", host, realm).name_of(principal) for realm in (False, True) for host in (False, True)
    ]
    assert told == [whole, no_host, no_realm, neither]


def test_the_realm_of_the_server() -> None:
    assert realm_of("zookeeper/host@REALM") == "REALM"
    # Without a realm of its own every name stays whole.
    assert Naming(remove_realm=True).name_of("bob@HERE") == "bob@HERE"


@one_by_one("principal", ["", "zookeeper", "zookeeper@R", "zookeeper/h", "/h@R", "z/@R", "z/h@", "z/h/i@R"])
def test_what_is_no_servers_principal(principal: str) -> None:
    with pytest.raises(ValueError, match="SERVICE/HOST@REALM"):
        realm_of(principal)
