"""Findings about real etcds, which are as they were afterwards."""

import json
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import cast

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from lab.servers import EtcdServer, ZketcdServer, free_port
from lab.servers.process import find_program
from proxy.etcd import metrics
from proxy.etcd.client import EtcdClient
from proxy.etcd.metrics import QUOTA, Metrics
from proxy.etcd.model import Status
from schema.followed import Lag
from schema.keys import Keyspace
from serve.check import etcd as module
from serve.check.etcd import _clock_of, _measured, _member, _quantile
from serve.check.finding import Grade
from tests.pipeline.follow.test_target import opened
from tests.proxy.etcd.admin import enable_authentication
from zketcd.__main__ import main

pytestmark = pytest.mark.real


def _checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, str]]:
    """The exit code, and all texts with their grades."""
    code = main(["check", "--json", "--listen", "127.0.0.1:0", "--admin-listen", "none", *arguments])
    document = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == code
    return code, {finding["text"]: finding["grade"] for finding in document["findings"]}


def _one(found: dict[str, str], said: str) -> str:
    """The grade of the one text that contains these words."""
    [grade] = [grade for text, grade in found.items() if said in text]
    return grade


def _revision(etcd: EtcdServer) -> int:
    request = urllib.request.Request(f"{etcd.endpoint}/v3/kv/range", b'{"key": "AAAA"}')
    with urllib.request.urlopen(request, timeout=5) as response:
        return int(json.load(response)["header"]["revision"])


def test_an_etcd_without_a_tree_and_with_one(
    own_etcd_server: EtcdServer, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--etcd", own_etcd_server.endpoint, "--prefix", "/checked")
    before = _revision(own_etcd_server)
    code, found = _checked(capsys, *arguments)
    assert _revision(own_etcd_server) == before
    assert code < 2
    for said in (
        "it has a leader",
        "its database has",
        "its clock and ours agree",
        "may be read and written",
        "there is no tree under",
    ):
        assert _one(found, said) == "good"
    assert _one(found, "a linearizable read takes") in ("good", "doubtful")
    assert "fsync" in " ".join(found)
    with ZketcdServer(own_etcd_server.endpoint, prefix="/checked"):
        _, found = _checked(capsys, *arguments)
        assert _one(found, "its clock is unknown: it has no admin port") == "good"
    assert _one(found, "1 live proxies") == "good"


def test_the_clocks_of_proxies_are_compared() -> None:
    for ahead, grade, said in (
        (0.3, Grade.GOOD, "agree"),
        (3600.0, Grade.DOUBTFUL, "3600 s ahead of this host's"),
        (-60.0, Grade.DOUBTFUL, "60 s behind this host's"),
        ("why", Grade.GOOD, "unknown: why"),
    ):
        found = _clock_of("proxy a on h", ahead)
        assert found.grade is grade
        assert said in found.text


@pytest.mark.parametrize(("reserve", "grade"), [(10, Grade.WRONG), (0, Grade.DOUBTFUL), (9, Grade.DOUBTFUL)])
def test_a_touched_reserve_is_named(reserve: int, grade: Grade) -> None:
    status = Status("3.5.21", 1, 1, 91, 91, 1, 9, 2, 8, [])
    found = _measured("http://e", status, Metrics({QUOTA: 100.0}, 0.0), reserve)
    assert next(found).grade is grade


def test_a_member_with_unused_space_is_to_be_defragmented_without_the_timeout_of_etcdctl() -> None:
    status = Status("3.5.30", 1, 1, 8 << 30, 1 << 30, 1, 9, 2, 8, [])
    *_, found = _member("http://e", status)
    assert found.grade is Grade.DOUBTFUL
    assert "7168 MiB of its database are unused: run `etcdctl defrag --command-timeout 30m`" in found.text


def test_an_etcd_without_a_quota() -> None:
    """`--quota-backend-bytes=-1`, which its metrics show as it is."""
    status = Status("3.5.21", 1, 1, 91, 91, 1, 9, 2, 8, [])
    found = next(_measured("http://e", status, Metrics({QUOTA: -1.0}, 0.0), 10))
    assert found.grade is Grade.GOOD
    assert "no quota" in found.text


def test_access_rights(
    own_etcd_server: EtcdServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def ctl(*arguments: str) -> None:
        command = [find_program("etcdctl", "make test installs it"), "--endpoints", own_etcd_server.endpoint]
        subprocess.run([*command, *arguments], check=True, capture_output=True, timeout=30)

    for user in ("root", "reader", "writer"):
        ctl("user", "add", f"{user}:word")
    for role, right in (("reader", "read"), ("writer", "readwrite")):
        ctl("role", "add", role)
        ctl("role", "grant-permission", "--prefix=true", role, right, "/zketcd")
        ctl("user", "grant-role", role, role)
    ctl("role", "add", "root")
    ctl("user", "grant-role", "root", "root")
    ctl("auth", "enable")
    for user, grade in (("reader", "wrong"), ("writer", "good")):
        given = ("--etcd", own_etcd_server.endpoint, "--etcd-user", user, "--etcd-password", "word")
        _, found = _checked(capsys, *given)
        said = "/zketcd may be read and written" if grade == "good" else "permission denied"
        assert _one(found, said) == grade
    given = ("--etcd", own_etcd_server.endpoint, "--etcd-user", "writer", "--etcd-password", "wrong")
    _, found = _checked(capsys, *given)
    assert _one(found, "authentication failed") == "wrong"
    file = tmp_path / "password"
    given = (*given[:-2], "--etcd-password-file", str(file))
    file.write_text("word\n")
    file.chmod(0o644)
    _, found = _checked(capsys, *given)
    assert _one(found, "/zketcd may be read and written") == "good"
    assert _one(found, f"every user of this host can read the secrets in {file}") == "doubtful"


def test_an_etcd_whose_logins_are_slow(
    own_etcd_server: EtcdServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TIMEOUT", 1e-4)  # no login is as fast
    enable_authentication(own_etcd_server.endpoint, "tenant", "word", b"/zketcd/", b"/zketcd0")
    given = ("--etcd-user", "tenant", "--etcd-password", "word")
    code, found = _checked(capsys, "--etcd", own_etcd_server.endpoint, *given)
    assert code == 1
    assert _one(found, "etcd gave no token in 0.0 s, but it answers: its logins are slow") == "doubtful"
    monkeypatch.setattr(metrics, "_TIMEOUT", 0.2)
    own_etcd_server.pause()
    try:
        code, found = _checked(capsys, "--etcd", own_etcd_server.endpoint, *given)
    finally:
        own_etcd_server.resume()
    assert code == 2
    assert _one(found, "it does not answer: etcd gave no token") == "wrong"


def test_an_etcd_that_does_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = _checked(capsys, "--etcd", f"http://127.0.0.1:{free_port()}")
    assert code == 2
    assert _one(found, "it does not answer: ") == "wrong"


def test_an_etcd_without_tls(etcd_server: EtcdServer, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = _checked(capsys, "--etcd", f"https://{etcd_server.address}")
    assert code == 2
    assert found["this etcd does not use TLS: its URL is http://"] == "wrong"


def test_a_file_that_etcds_connections_need(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = _checked(capsys, "--etcd", "https://127.0.0.1:1", "--etcd-ca", __file__)
    assert code == 2
    assert _one(found, "the CA of etcd") == "wrong"


def test_quantiles_are_ends_of_buckets() -> None:
    name = "etcd_disk_wal_fsync_duration_seconds_bucket"
    samples = {f'{name}{{le="0.001"}}': 98.0, f'{name}{{le="0.002"}}': 99.0, f'{name}{{le="+Inf"}}': 100.0}
    assert _quantile(samples, 0.99) == 0.002
    assert _quantile(samples, 1.0) == float("inf")
    assert _quantile({}, 0.99) is None
    assert _quantile(dict.fromkeys(samples, 0.0), 0.99) is None


@pytest.mark.parametrize(
    ("age", "grade", "said"),
    [
        (None, Grade.DOUBTFUL, "the tree under /t follows another one, and was not level yet"),
        (3, Grade.GOOD, "the tree under /t follows another one: at zxid 0x5, level 3."),
        (61, Grade.DOUBTFUL, "level 61."),
    ],
)
async def test_a_copy_is_good_while_it_is_level(age: int | None, grade: Grade, said: str) -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    begun = await opened(etcd)
    if age is not None:
        await begun.tree.report(Lag(int((time.time() - age) * 1000), 0, 5))
    *_, last = [found async for found in module._tree(cast("EtcdClient", etcd), Keyspace("/t"))]
    assert last.grade is grade
    assert said in last.text
