"""An etcd that speaks TLS, and the folders of a host that docs/etcd.md names: /etc/etcd and /etc/zketcd.

Its users are made by the commands of that page. So every page can be run as on the cluster of an operator who
has followed it.
"""

import urllib.request
from pathlib import Path

from typing_extensions import override

from lab.servers.etcd import EtcdServer
from lab.servers.tls import Authority


class SecuredEtcd(EtcdServer):
    """etcd with TLS for clients; bcrypt is cheap, so that logins are fast on a busy machine."""

    def __init__(self, root: Path, *arguments: str) -> None:
        """`root` takes the place of the root folder of a host; `arguments` go to etcd as they are."""
        self.root = root
        for name in ("etcd", "zketcd"):
            (root / "etc" / name).mkdir(parents=True)
        of_etcd, of_zketcd = root / "etc" / "etcd", root / "etc" / "zketcd"
        self.authority = Authority(of_etcd)
        pair = self.authority.issue("etcd", "127.0.0.1", "localhost")
        (of_zketcd / "etcd-ca.pem").write_bytes(self.authority.ca.read_bytes())
        for file, word in (
            (of_etcd / "root-password", "of-root"),
            (of_zketcd / "etcd-password", "of-zketcd"),
        ):
            file.write_text(word)
            file.chmod(0o600)
        self._context = self.authority.client_context()
        files = f"--cert-file={pair.cert}", f"--key-file={pair.key}"
        super().__init__("--bcrypt-cost=4", *files, *arguments)

    @property
    @override
    def endpoint(self) -> str:
        return f"https://{self.address}"

    @override
    def _http(self, path: str) -> bytes:
        with urllib.request.urlopen(self.endpoint + path, timeout=5, context=self._context) as response:
            body: bytes = response.read()
        return body

    def on_page(self) -> dict[str, str]:
        """What is in the place of the host's names on a page."""
        return {
            ",https://etcd-2:2379,https://etcd-3:2379": "",
            "etcd-1:2379": self.address,
            "/etc/etcd/": f"{self.root}/etc/etcd/",
            "/etc/zketcd/": f"{self.root}/etc/zketcd/",
        }

    def options(self) -> dict[str, object]:
        """Those of a zketcd that uses this etcd as its user."""
        return {
            "etcd_ca": self.root / "etc" / "zketcd" / "etcd-ca.pem",
            "etcd_user": "zketcd",
            "etcd_password_file": self.root / "etc" / "zketcd" / "etcd-password",
        }
