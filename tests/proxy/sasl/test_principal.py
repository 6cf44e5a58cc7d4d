"""Names in ACLs: those of this realm may lose host and realm, others stay whole."""

import pytest

from proxy.sasl.principal import Naming, realm_of


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "principal", ["", "zookeeper", "zookeeper@R", "zookeeper/h", "/h@R", "z/@R", "z/h@", "z/h/i@R"]
)
def test_what_is_no_servers_principal(principal: str) -> None:
    with pytest.raises(ValueError, match="SERVICE/HOST@REALM"):
        realm_of(principal)
