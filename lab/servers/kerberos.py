"""A Kerberos realm of the tests' own: MIT's KDC on the loopback interface, with keytabs and tickets."""

import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.servers.process import ServerProcess, find_program

#: As kazoo's tests expect it.
REALM = "KAZOOTEST.ORG"
_ADVICE = "make setup-test installs it"


class Kdc(ServerProcess):
    """A KDC with an empty realm. Programs find it with the variables of `client_environment`."""

    kind = "kdc"

    def __init__(self) -> None:
        super().__init__()
        self._krb5_conf = self.folder / "krb5.conf"
        self._kdc_conf = self.folder / "kdc.conf"
        self._krb5_conf.write_text(
            "[libdefaults]\n"
            f"default_realm = {REALM}\n"
            "dns_lookup_realm = false\n"
            "dns_lookup_kdc = false\n"
            "dns_canonicalize_hostname = false\n"
            "rdns = false\n"
            "udp_preference_limit = 1\n"
            f"[realms]\n{REALM} = {{\nkdc = {self.address}\n}}\n"
        )
        self._kdc_conf.write_text(
            f"[kdcdefaults]\nkdc_listen = {self.address}\nkdc_tcp_listen = {self.address}\n"
            f"[realms]\n{REALM} = {{\n"
            f"database_name = {self.folder}/principal\n"
            f"key_stash_file = {self.folder}/stash\n"
            f"acl_file = {self.folder}/acl\n"
            "default_principal_flags = +postdateable,+preauth\n"
            "supported_enctypes = aes256-cts-hmac-sha1-96:normal\n"
            "}\n"
        )

    def client_environment(self) -> dict[str, str]:
        """The environment of a process that uses the realm; tickets and replay caches are the test's own."""
        return {
            "KRB5_CONFIG": str(self._krb5_conf),
            "KRB5CCNAME": f"FILE:{self.folder}/tickets",
            "KRB5RCACHENAME": f"dfl:{self.folder}/replays",
            "KRB5RCACHEDIR": str(self.folder),
        }

    @property
    def configuration(self) -> Path:
        """The file krb5.conf."""
        return self._krb5_conf

    def environment(self) -> Mapping[str, str]:
        """Where the KDC's own files are."""
        return {**self.client_environment(), "KRB5_KDC_PROFILE": str(self._kdc_conf)}

    def command(self) -> Sequence[str]:
        """The KDC; makes its database first."""
        if not (self.folder / "principal").exists():
            self._run(find_program("kdb5_util", _ADVICE), "create", "-s", "-r", REALM, "-P", "master")
        return [find_program("krb5kdc", _ADVICE), "-n", "-r", REALM]

    def serves(self) -> bool:
        """Whether its port is open."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    #: The host for which clients of the address 127.0.0.1 request a ticket.
    service = f"zookeeper/127.0.0.1@{REALM}"

    @property
    def server_keytab(self) -> Path:
        """The key of `service`."""
        return self.add(self.service, "server.keytab")

    def add(self, principal: str, name: str) -> Path:
        """Add a principal, unless it is there; its key, in a file of that name."""
        path = self.folder / name
        if path.exists():
            return path
        kadmin = find_program("kadmin.local", _ADVICE)
        self._run(kadmin, "-r", REALM, "addprinc", "-randkey", principal)
        self._run(kadmin, "-r", REALM, "ktadd", "-k", str(path), principal)
        return path

    def get_ticket(self, keytab: Path, principal: str) -> None:
        """Have a ticket of this principal, in place of any other."""
        self._run(find_program("kinit", _ADVICE), "-k", "-t", str(keytab), principal)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [program, *arguments],
            env={**os.environ, **self.environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} {' '.join(arguments)}: {done.stdout}{done.stderr}")
