"""The options for SASL and for which clients are served at all, and which of them need each other."""

from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from proxy.options import values
from proxy.options.table import file_option, option, truth
from proxy.sasl import jaas, users
from proxy.sasl.digest_md5 import secret
from proxy.sasl.principal import Naming, realm_of
from proxy.support.files import bounded, check_no_pipe

#: The value of --enforce-auth-schemes that says that clients need not authenticate.
NO_SCHEME = "none"
_SOURCES = ("sasl_user", "sasl_users_file", "jaas_file", "sasl_keytab")
SOURCES = "--jaas-file, --sasl-users-file, --sasl-user or --sasl-keytab"


class SaslSettings(NamedTuple):
    """How clients authenticate by SASL, and whether they have to authenticate."""

    users: Mapping[str, bytes] = {}  # name -> secret (digest_md5.secret); empty: no DIGEST-MD5
    keytab: str = ""  # "": no GSSAPI
    principal: str = ""  # SERVICE/HOST@REALM, whose key is in the keytab
    naming: Naming = Naming()
    super_users: frozenset[str] = frozenset()
    allow_failed: bool = False  # a client whose SASL fails is served without its identity
    enforced: tuple[
        str, ...
    ] = ()  # clients that have an identity of none of these are not served; (): all are

    @property
    def is_on(self) -> bool:
        """Whether any client can authenticate."""
        return bool(self.users or self.keytab)

    @property
    def is_demanded(self) -> bool:
        """Whether a client whose SASL fails gets the error that it needs SASL (AuthenticationHelper)."""
        return "sasl" in self.enforced


@values.checked
def _principal(text: str) -> str:
    if text:
        realm_of(text)
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _schemes(text: str) -> tuple[str, ...]:
    names = _names(text)
    if NO_SCHEME in names and len(names) > 1:
        raise ArgumentTypeError(f"{text!r}: {NO_SCHEME} goes with no other scheme")
    return names


@dataclass(frozen=True, slots=True)
class SaslOptions:
    """The options as they are given."""

    jaas_file: str = file_option(
        "JAAS file of a ZooKeeper server: users of DIGEST-MD5, or a keytab (java.security.auth.login.config)",
        secret_file=True,
    )
    jaas_section: str = option(
        "section of --jaas-file that is used (zookeeper.sasl.serverconfig)",
        default="Server",
        metavar="NAME",
        zoo="sasl.serverconfig",
    )
    users: Sequence[tuple[str, bytes]] = option(
        "user that may authenticate by DIGEST-MD5; may be given several times. NAME:{ha1}HASH has the"
        " MD5 of NAME:zk-sasl-md5:PASSWORD, in hex, in place of the password. Safer in a file than on the"
        " command line",
        name="--sasl-user",
        type=values.checked(users.user),
        action="append",
        metavar="NAME:PASSWORD",
        default=None,
        final=lambda found: found or (),
        secret=True,
    )
    users_file: str = file_option(
        "file with a user of DIGEST-MD5 on each line, as --sasl-user has them",
        name="--sasl-users-file",
        secret_file=True,
    )
    keytab: str = file_option(
        "keytab of --sasl-principal, for clients that authenticate by GSSAPI (Kerberos); needs python-gssapi",
        name="--sasl-keytab",
        secret_file=True,
    )
    principal: str = option(
        "this server's Kerberos principal; HOST is the name by which clients reach it",
        name="--sasl-principal",
        type=_principal,
        metavar="SERVICE/HOST@REALM",
    )
    super_users: tuple[str, ...] = option(
        "SASL users that have all permissions, separated by commas (zookeeper.superUser). Without it, too, a"
        " user with the name super matches every ACL entry of scheme sasl",
        name="--sasl-super-users",
        type=_names,
        metavar="NAMES",
    )
    remove_host: bool = truth(
        "whether ACLs name a principal of this realm without its host"
        " (zookeeper.kerberos.removeHostFromPrincipal)",
        name="--kerberos-remove-host",
        zoo="kerberos.removeHostFromPrincipal",
    )
    remove_realm: bool = truth(
        "whether ACLs name a principal of this realm without the realm"
        " (zookeeper.kerberos.removeRealmFromPrincipal)",
        name="--kerberos-remove-realm",
        zoo="kerberos.removeRealmFromPrincipal",
    )
    allow_failed: bool = truth(
        "whether a client whose SASL fails is served without its identity, instead of being closed"
        " (zookeeper.allowSaslFailedClients)",
        name="--allow-sasl-failed-clients",
        zoo="allowSaslFailedClients",
    )
    schemes: tuple[str, ...] = option(
        "serve only clients with an identity of one of these schemes, separated by commas: sasl, x509,"
        f" digest, ip; {NO_SCHEME} serves all (enforce.auth.schemes, sessionRequireClientSASLAuth)",
        name="--enforce-auth-schemes",
        type=_schemes,
        metavar="SCHEMES",
    )


def read(given: SaslOptions, *, has_x509: bool) -> SaslSettings:
    """The settings. Raises ValueError for a bad file, and for options that lack a partner.

    `has_x509`: whether clients can show certificates.
    """
    found: dict[str, bytes] = {}
    for name, word in given.users:
        users.add(found, name, word)
    if given.users_file:
        _from(given.users_file, lambda text: _add_all(found, users.lines(text)))
    keytab, principal = given.keytab, given.principal
    if given.jaas_file:
        section = _from(given.jaas_file, lambda text: jaas.read(text, given.jaas_section))
        for name, password in section.passwords.items():
            users.check_name(name)
            users.add(found, name, secret(name, password))
        check_no_pipe(section.keytab)
        keytab, principal = keytab or section.keytab, principal or section.principal
    if bool(keytab) != bool(principal):
        raise ValueError("--sasl-keytab and --sasl-principal must be given together")
    settings = SaslSettings(
        found,
        keytab,
        principal,
        Naming(realm_of(principal) if principal else "", given.remove_host, given.remove_realm),
        frozenset(given.super_users),
        given.allow_failed,
        tuple(scheme for scheme in given.schemes if scheme != NO_SCHEME),
    )
    if settings.super_users and not settings.is_on:
        raise ValueError(f"--sasl-super-users needs clients that can authenticate: {SOURCES}")
    available = {"ip", "digest", *(["sasl"] if settings.is_on else []), *(["x509"] if has_x509 else [])}
    for scheme in settings.enforced:
        if scheme not in available:
            advice = {"sasl": f": give {SOURCES}", "x509": ": give --tls-cert and --tls-ca"}.get(scheme, "")
            raise ValueError(f"--enforce-auth-schemes: scheme {scheme!r} is not available{advice}")
    return settings


def is_source_given(is_given: Callable[[str], bool]) -> bool:
    """Whether an option says who may authenticate."""
    return any(map(is_given, _SOURCES))


def _from(path: str, read: Callable[[str], Any]) -> Any:
    """What `read` makes of a file. Raises ValueError that names it."""
    try:
        with open(path, encoding="utf-8-sig") as stream:
            return read(bounded(stream))
    except UnicodeDecodeError:
        raise ValueError(f"{path}: it is not UTF-8") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def _add_all(found: dict[str, bytes], more: Mapping[str, bytes]) -> None:
    for name, word in more.items():
        users.add(found, name, word)
