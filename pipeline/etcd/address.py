"""How a command line names a tree in etcd.

etcd://HOST:PORT,.../PREFIX         the prefix begins with a slash
etcd://HOST:PORT,...?prefix=PREFIX  any prefix, as --prefix has it
etcds://...                         with TLS
"""

import re

#: Schemes of such names, and etcd's own.
SCHEMES = {"etcd": "http", "etcds": "https"}
#: Options of access to etcd that are not part of a name, as argparse names them.
ACCESS = (
    "etcd_ca",
    "etcd_cert",
    "etcd_key",
    "etcd_user",
    "etcd_password",
    "etcd_password_file",
    "etcd_transport",
)

_URL = re.compile(r"(etcds?)://([^/?]+)(?:/?\?prefix=(.*)|(/.*[^/])/*)", re.DOTALL)


def is_url(name: str) -> bool:
    """Whether a word of a command line names a tree in etcd."""
    return name.startswith(tuple(f"{scheme}://" for scheme in SCHEMES))


def taken_apart(url: str) -> tuple[str, str]:
    """(client URLs of etcd, separated by commas, and the prefix) of such a name. Raises ValueError."""
    if "@" in re.split("[/?]", url.partition("://")[2], maxsplit=1)[0]:
        raise ValueError("give --etcd-user and --etcd-password, not a user and password in a URL")
    found = _URL.fullmatch(url)
    if found is None:
        scheme = url.partition("://")[0]
        raise ValueError(
            f"{url} is not {scheme}://HOST:PORT/PREFIX, nor {scheme}://HOST:PORT?prefix=PREFIX for a prefix"
            " without a slash before it"
        )
    scheme, hosts, whole, path = found.groups()
    endpoints = ",".join(f"{SCHEMES[scheme]}://{host}" for host in hosts.split(","))
    return endpoints, path if whole is None else whole
