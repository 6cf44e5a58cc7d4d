"""`zketcd top`: the answers of proxies as one, and the command as people run it."""

import json
import re
from typing import Any

import pytest

from cli.output import CommandFailed
from ctl.top import Documents, show
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.ports import free_port
from tests.kazoo import kazoo
from zketcd.__main__ import main


def _document(path: str, reads: float, writes: float) -> dict[str, Any]:
    rates = {"reads": reads, "writes": writes}
    return {
        "one_in": 100,
        "window_seconds": 60,
        **rates,
        "paths": [{"path": path, **rates}, {"path": "", "reads": 1.0, "writes": 0.0}],
        "operations": [{"operation": "getData", "path": path, **rates}],
        "sessions": [{"session": f"0x{reads:.0f}", "client": "10.0.0.1", "path": path, **rates}],
        "clients": [{"client": "10.0.0.1", **rates}],
    }


def test_the_answers_of_proxies_are_added() -> None:
    answers: Documents = {
        "a": _document("/one", 20.0, 2.5),
        "b": _document("/one", 30.0, 0.5),
        "c": "it has no port",
    }
    output = show(answers, "all", 10)
    assert output.lines == [
        "2 of 3 proxies, last 60 s: 50 reads/s, 3.00 writes/s",
        "not counted: proxy c: it has no port",
        "",
        "reads  writes  path",
        "50     3.00    /one",
        "2.00   0.00    -",
        "",
        "reads  writes  operation  path",
        "50     3.00    getData    /one",
        "",
        "reads  writes  session  client    most at path",
        "30     0.50    0x30     10.0.0.1  /one",
        "20     2.50    0x20     10.0.0.1  /one",
        "",
        "reads  writes  client",
        "50     3.00    10.0.0.1",
    ]
    assert output.data["paths"][0] == {"path": "/one", "reads": 50.0, "writes": 3.0}
    sorted_by_writes = show(answers, "writes", 1).data["sessions"]
    assert [each["session"] for each in sorted_by_writes] == ["0x20"]


def test_no_answer_and_another_answer_are_failures() -> None:
    with pytest.raises(CommandFailed, match="proxy a: it has no port"):
        show({"a": "it has no port"}, "all", 10)
    with pytest.raises(CommandFailed, match="no proxy lives"):
        show({}, "all", 10)
    with pytest.raises(CommandFailed, match="another release"):
        show({"a": {"error": None}}, "all", 10)
    silent = {**_document("/", 0.0, 0.0), "one_in": 0}
    off = show({"a": silent}, "all", 1)
    assert "1 of them with --top-sample 0, which counts nothing" in off.lines


def test_a_server_says_what_its_clients_read_and_write(
    etcd_server: EtcdServer, etcd_prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = f"127.0.0.1:{free_port()}"
    tree = ("--etcd", etcd_server.endpoint, "--prefix", etcd_prefix)
    with (
        ZketcdServer(
            etcd_server.endpoint, prefix=etcd_prefix, admin_listen=admin, top_sample=1, top_log=1
        ) as server,
        kazoo(server) as client,
    ):
        client.create("/app/jobs/done", b"", makepath=True)
        for _ in range(30):
            client.get("/app/jobs/done")
        for _ in range(10):
            client.create("/app/jobs/n-", sequence=True)
        assert main(["top", *tree, "--once"]) == 0
        shown = capsys.readouterr().out
        assert main(["top", *tree, "--json", "--sort", "writes"]) == 0
        found = json.loads(capsys.readouterr().out)
        wait_until(lambda: "the paths read most: /app/jobs/done" in server.log_text(), "a line", 60)
        session = f"{client.client_id[0]:#x}"
    assert re.match(r"1 of 1 proxies, last 60 s: [\d.]+ reads/s, [\d.]+ writes/s\n", shown)
    assert re.search(r"\n[\d.]+ +[\d.]+ +getData +/app/jobs/done\n", shown)
    assert found["paths"][0]["path"] == "/app/jobs/n-"
    assert found["operations"][0]["operation"] == "create"
    assert [each["session"] for each in found["sessions"]] == [session]
    assert found["clients"][0]["client"] == "127.0.0.1"
    assert main(["top", "--once", "--admin", f"http://{admin}"]) == 1
    assert "does not answer" in capsys.readouterr().err
