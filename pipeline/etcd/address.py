"""How a command line names a tree in etcd: etcd://HOST:PORT,.../PREFIX, or etcds:// with TLS."""

#: Schemes of such names, and etcd's own.
SCHEMES = {"etcd": "http", "etcds": "https"}
#: Options of access to etcd that a name does not hold, as argparse names them.
ACCESS = ("etcd_ca", "etcd_cert", "etcd_key", "etcd_user", "etcd_password", "etcd_transport")


def is_url(name: str) -> bool:
    """Whether a word of a command line means a tree in etcd."""
    return name.startswith(tuple(f"{scheme}://" for scheme in SCHEMES))
