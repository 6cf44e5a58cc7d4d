"""TLS clients and their certificates as identities, on real ZooKeeper and zketcd, on one port with others."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from cryptography.x509 import Name, NameAttribute, ObjectIdentifier, RelativeDistinguishedName
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from lab.oracle.requests import AddAuth, Create, GetAcl, GetData, SetAcl
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer
from lab.servers.tls import Authority, Pair
from tests.compat.acl_cases import FEW_PERMISSIONS, matrix
from tests.compat.runner import demand_equal
from tests.compat.script import Open, Reopen, Script, call
from tests.compat.side import Server

pytestmark = pytest.mark.real

AMY, BOB, ROOT, NOBODY = range(4)
_NAMES: dict[str, Name] = {
    "all_words": Name(
        NameAttribute(oid, value)
        for oid, value in (
            (NameOID.COUNTRY_NAME, "DE"),
            (NameOID.STATE_OR_PROVINCE_NAME, "Bavaria"),
            (NameOID.LOCALITY_NAME, "Munich"),
            (NameOID.STREET_ADDRESS, "1 Road"),
            (NameOID.DOMAIN_COMPONENT, "org"),
            (NameOID.ORGANIZATION_NAME, "Org"),
            (NameOID.ORGANIZATIONAL_UNIT_NAME, "Unit"),
            (NameOID.USER_ID, "uid"),
            (NameOID.COMMON_NAME, "name"),
        )
    ),
    "no_words": Name(
        NameAttribute(oid, value)
        for oid, value in (
            (NameOID.EMAIL_ADDRESS, "a@example.org"),
            (NameOID.SERIAL_NUMBER, "17"),
            (NameOID.TITLE, "Dr"),
            (NameOID.GIVEN_NAME, "Amy"),
            (NameOID.SURNAME, "A"),
            (NameOID.DN_QUALIFIER, "q"),
            (ObjectIdentifier("1.2.3.400.50000"), "anything"),
        )
    ),
    "escapes": Name([NameAttribute(NameOID.COMMON_NAME, ' #a,b+c"d\\e<f>g;h=i#\u00fc\u4f60  ')]),
    "spaces": Name(
        [NameAttribute(NameOID.COMMON_NAME, "   "), NameAttribute(NameOID.ORGANIZATION_NAME, "#x")]
    ),
    "returns": Name([NameAttribute(NameOID.COMMON_NAME, "\r a\nb\t\r")]),
    "several_in_one": Name(
        [
            RelativeDistinguishedName(
                [
                    NameAttribute(NameOID.COMMON_NAME, "n"),
                    NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "u"),
                    NameAttribute(NameOID.USER_ID, "i"),
                ]
            ),
            RelativeDistinguishedName([NameAttribute(NameOID.ORGANIZATION_NAME, "o")]),
        ]
    ),
    # Without a BMPString: JDKs differ, see tests/proxy/state/auth/test_names.py.
    "other_strings": Name(
        [
            NameAttribute(NameOID.ORGANIZATION_NAME, "ia5", _ASN1Type.IA5String),
            NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "t61", _ASN1Type.T61String),
            NameAttribute(NameOID.LOCALITY_NAME, "printable", _ASN1Type.PrintableString),
            NameAttribute(NameOID.USER_ID, "u", _ASN1Type.UniversalString),
        ]
    ),
    "none": Name([]),
}

_IDS = (
    *("CN=amy", "CN=amy,O=Example", "cn = amy ; o=x", "O=a+OU=b", "CN=", "", " ", "amy", "CN", "=a"),
    *("CN=a,", ",", "XX=a", "1.2.3=a", "OID.1.2.3=a", "oid.1.2=b", "1=a", "9.1=a", "1.99=a", "1.2.=a"),
    *("CN=#0c0161", "CN=#", "CN=#0", "CN=#zz", 'CN="a,b"', 'CN="a', 'CN=a"b', 'CN="a"b', "CN=a\\,b"),
    *("CN=a\\", "CN=a\\q", "CN=a\\4a", "E=a", "EMAIL=a", "EMAILADDRESS=a", "S=x", "ST=x", "T=x", "IP=1"),
    *("DC=a,DC=b", "UID=1", "SERIALNUMBER=1", "CN=a=b", "CN=a+", "+CN=a", "CN=a;;O=b", "CN=a<b", "CN=a>b"),
    *("CN=a#b", "C N=a", "CN=\u00fc", "\nCN=a", "CN=a\nb", "CN= a ", "\tCN=a", "GENERATION=a", "INITIALS=a"),
    *("DNQ=a", "DNQUALIFIER=a", "STREET=a", "L=a"),
)


class Sides(NamedTuple):
    """Both servers, and the authority that clients' certificates come from."""

    oracle: Server
    subject: Server
    authority: Authority


def _common_name(name: str) -> Name:
    return Name([NameAttribute(NameOID.COMMON_NAME, name)])


@pytest.fixture(scope="module")
def sides(etcd_server: EtcdServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Both with a port for all, certificates wanted, and a super user by certificate."""
    authority = Authority(tmp_path_factory.mktemp("tls"))
    server = authority.issue("server", "127.0.0.1")
    people: list[Pair | None] = [
        authority.issue_for(name, _common_name(name)) for name in ("amy", "bob", "root")
    ]
    contexts = tuple(map(authority.client_context, [*people, None]))
    with (
        ZooKeeperServer(
            max_client_connections=0,
            settings={
                "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
                "ssl.clientAuth": "want",
                "ssl.keyStore.location": str(server.both),
                "ssl.keyStore.type": "PEM",
                "ssl.trustStore.location": str(authority.ca),
                "ssl.trustStore.type": "PEM",
            },
            system_properties={
                "zookeeper.serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "zookeeper.client.portUnification": "true",
                "zookeeper.X509AuthenticationProvider.superUser": "CN=root",
                "zookeeper.forceSync": "no",
                "org.apache.logging.log4j.level": "OFF",
            },
        ) as oracle,
        ZketcdServer(
            etcd_server.endpoint,
            prefix="/compat-x509",
            max_client_connections=0,
            tls_cert=server.cert,
            tls_key=server.key,
            tls_ca=authority.ca,
            tls_client_auth="want",
            x509_super_user="CN=root",
        ) as subject,
    ):
        yield Sides(
            Server("zookeeper", (oracle.port,), contexts),
            Server("zketcd", (subject.port,), contexts),
            authority,
        )


def _alike(script: Script, sides: Sides) -> None:
    demand_equal(script, sides.oracle, sides.subject)


def test_permissions(sides: Sides) -> None:
    _alike(matrix(("x509", "CN=amy")), sides)


@pytest.mark.parametrize("subject", ["CN=bob", "cn=amy"])
def test_permissions_of_another(sides: Sides, subject: str) -> None:
    _alike(matrix(("x509", subject), FEW_PERMISSIONS), sides)


def test_the_super_user_by_certificate(sides: Sides) -> None:
    script: Script = [Open(AMY), Open(ROOT), Open(NOBODY), Open(BOB)]
    for slot in (AMY, ROOT, BOB):
        path = f"/n{slot}"
        script += [call(slot, Create(path, acls=((31, "auth", ""),))), call(slot, GetAcl(path))]
        script += [call(other, GetData(path)) for other in (AMY, BOB, ROOT, NOBODY)]
        script += [call(other, SetAcl(path, ((0, "world", "anyone"),))) for other in (BOB, ROOT)]
        script += [call(other, GetData(path)) for other in (AMY, BOB, ROOT, NOBODY)]
    script += [call(NOBODY, Create("/x", acls=((31, "auth", ""),))), Reopen(ROOT), call(ROOT, GetData("/n0"))]
    _alike(script, sides)


@pytest.mark.parametrize("slot", [AMY, NOBODY])
def test_a_certificate_may_be_shown_again(sides: Sides, slot: int) -> None:
    _alike([Open(slot), call(slot, AddAuth("x509", b"")), call(slot, GetAcl(""))], sides)


@pytest.mark.parametrize("name", _IDS)
def test_which_names_an_acl_may_hold(sides: Sides, name: str) -> None:
    _alike([Open(AMY), call(AMY, Create("/a", acls=((31, "x509", name),)))], sides)


@pytest.mark.parametrize("name", _NAMES)
def test_a_certificates_name_is_told_as_java_does(sides: Sides, name: str) -> None:
    context = sides.authority.client_context(sides.authority.issue_for("odd", _NAMES[name]))
    both = sides._replace(
        oracle=sides.oracle._replace(tls=(context,)), subject=sides.subject._replace(tls=(context,))
    )
    mine = ((31, "auth", ""),)
    _alike([Open(0), call(0, Create("/mine", acls=mine)), call(0, GetAcl("/mine"))], both)
