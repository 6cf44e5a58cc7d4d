"""A zketcd that follows another one: real etcds and clients, and processes that are killed at any moment."""

import json
import subprocess
import threading
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from random import Random
from typing import Self

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NodeExistsError, OperationTimeoutError, SessionExpiredError
from kazoo.retry import KazooRetry

from lab.oracle.client import Client
from lab.servers import EtcdServer, StartFailed, ZketcdServer, wait_until
from lab.servers.link import Link
from schema.keys import Keyspace
from tests.archive.archives import until_archived
from tests.clients.jvm import java_virtual_machine
from tests.pipeline.ensembles import ephemerals, populate, view, zketcd
from tests.pipeline.follow.running import Comer, PipelineCommand, wait_for_zxid
from tests.pipeline.follow.test_inward_curator import curator
from tests.pipeline.running.test_runner import run as pipeline
from zketcd.__main__ import main

COPY = "/copy"
Capture = pytest.CaptureFixture[str]


def url_of(etcd: EtcdServer, prefix: str) -> str:
    """The name of a tree."""
    return f"etcd://{etcd.address}{prefix}"


def check(source: str, to: list[str], capsys: Capture) -> None:
    """Every field of every znode is the same, and so are the sessions."""
    capsys.readouterr()
    assert main(["follow", source, *to, "--check"]) == 0
    assert "equal at zxid" in capsys.readouterr().out


def test_everything_is_killed_while_clients_write(
    etcd_server: EtcdServer, own_etcd_server: EtcdServer, etcd_prefix: str, capsys: Capture
) -> None:
    to = ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]
    source = url_of(own_etcd_server, COPY)
    random = Random(20)
    with zketcd(own_etcd_server.endpoint, COPY) as server:
        client = Client(server.port)
        populate(client)
        ephemerals(client)
        client.leave()
        with Comer(server.port) as comer, PipelineCommand("follow", source, *to) as following:
            for killed in (following, server, own_etcd_server, following):
                comer.go_on()
                threading.Event().wait(random.uniform(0.0, 0.3))
                killed.kill()
                threading.Event().wait(random.uniform(0.0, 0.3))
                killed.start()
            zxid = comer.go_on()
            wait_for_zxid(etcd_server, Keyspace(etcd_prefix), zxid)
            check(source, to, capsys)  # while clients write
            comer.stop()
            wait_for_zxid(etcd_server, Keyspace(etcd_prefix), comer.last_zxid)
            assert following.alive
        check(source, to, capsys)
    assert main(["follow", source, *to, "--until-level", "--timeout", "60"]) == 0
    check(source, to, capsys)


def test_an_operators_package_is_enough(
    etcd_server: EtcdServer, own_etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path
) -> None:
    """Neither Arrow nor numpy is installed; without them only a ZooKeeper's files cannot be followed."""
    source = url_of(etcd_server, etcd_prefix)
    to = ["--etcd", own_etcd_server.endpoint, "--prefix", COPY]

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return pipeline(*words, *to, without="pyspark,py4j,pandas,pyarrow,numpy")

    with zketcd(etcd_server.endpoint, etcd_prefix) as server, closing(Client(server.port)) as client:
        populate(client)
        for words, said in (
            (["--until-level"], "level at zxid"),
            (["--check"], "equal at zxid"),
            (["--finish", "--source-lost", "--force"], "finished: zxids go on"),
        ):
            done = run("follow", source, *words)
            assert (done.returncode, said in done.stdout) == (0, True), done.stderr
    assert run("lost", source).returncode == 0
    done = run("follow", str(tmp_path))
    assert (done.returncode, "is not installed: " in done.stderr) == (2, True)


def test_an_archive_is_followed(
    etcd_server: EtcdServer, own_etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path, capsys: Capture
) -> None:
    """Its etcd is not needed, and the two kinds of source may take turns."""
    to = ["--etcd", own_etcd_server.endpoint, "--prefix", COPY]
    url = tmp_path / "archive"
    archive, log = f"archive:{url}", url_of(etcd_server, etcd_prefix)
    server = ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, archive=url, tick_time=500)
    with server, closing(Client(server.port)) as client:
        populate(client)
        until_archived(url, client.last_zxid)
        with Comer(server.port) as comer:
            with PipelineCommand("follow", archive, *to) as following:
                following.wait_until_level()
                zxid = comer.go_on()
                wait_for_zxid(own_etcd_server, Keyspace(COPY), zxid)
                check(archive, to, capsys)
            for source in (log, archive, log):
                zxid = comer.go_on()
                until_archived(url, zxid)
                options = ["--until-level", "--zxid", hex(zxid), "--timeout", "60"]
                assert main(["follow", source, *to, *options]) == 0
            check(log, to, capsys)


class Mover:
    """A client that knows the proxies of both sides, writes all the time, and keeps what was acknowledged."""

    def __init__(self, *ports: int) -> None:
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        again = KazooRetry(max_tries=-1, delay=0.02, backoff=1)
        self.client = KazooClient(hosts, timeout=40.0, randomize_hosts=False, connection_retry=again)
        self.acknowledged: list[str] = []
        self.longest = 0.0  # seconds between two answers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self.client.start(60)
        self.session = self.client.client_id
        self.client.create("/moved")
        self.client.create("/moved/alive", ephemeral=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.client.stop()
        self.client.close()

    def stop(self) -> None:
        """Write no more."""
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stop.wait(0.01):
            path = f"/moved/n{len(self.acknowledged):06}"
            with suppress(ConnectionLoss, OperationTimeoutError, SessionExpiredError):
                with suppress(NodeExistsError):  # an earlier try took effect
                    self.client.create(path)
                self.acknowledged.append(path.rpartition("/")[2])
                now = time.monotonic()
                self.longest, last = max(self.longest, now - last), now

    def go_on(self) -> None:
        """Wait until some more was written."""
        enough = len(self.acknowledged) + 20
        wait_until(lambda: len(self.acknowledged) > enough, "clients write on", 60)


@pytest.mark.parametrize("is_running", [True, False])
def test_a_move_amid_writes(
    etcd_server: EtcdServer, own_etcd_server: EtcdServer, etcd_prefix: str, is_running: bool, capsys: Capture
) -> None:
    """With a follower that is asked, and without one."""
    to = ["--etcd", own_etcd_server.endpoint, "--prefix", COPY]
    source = url_of(etcd_server, etcd_prefix)
    new = zketcd(own_etcd_server.endpoint, COPY)
    with zketcd(etcd_server.endpoint, etcd_prefix) as old, closing(new), ExitStack() as stack:
        mover = stack.enter_context(Mover(old.port, new.port))
        mover.go_on()
        assert main(["follow", source, *to, "--until-level", "--timeout", "60"]) == 0
        following = PipelineCommand("follow", source, *to)
        if is_running:
            stack.enter_context(following)
        new.launch()  # waits for the move
        mover.go_on()
        assert main(["follow", source, *to, "--finish", "--timeout", "60"]) == 0
        assert "finished: zxids go on at" in capsys.readouterr().out
        if is_running:
            assert following.wait(60) == 0
        assert old.wait(60) == 1  # it has seen the seal
        new.wait_until_serving()
        mover.go_on()
        mover.stop()
        print(f"the longest pause: {mover.longest:.2f} s")
        assert mover.client.client_id == mover.session
        children = mover.client.get_children("/moved")
        assert sorted(children) == ["alive", *mover.acknowledged]
        assert mover.client.get("/moved/alive")[1].ephemeralOwner == mover.session[0]
        with pytest.raises(StartFailed, match=f"was moved to the prefix {COPY} of the etcd at"):
            old.start()


@pytest.mark.timeout(300)
def test_a_java_client_keeps_its_session_through_a_move(
    etcd_server: EtcdServer, own_etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    to = ["--etcd", own_etcd_server.endpoint, "--prefix", COPY]
    source = url_of(etcd_server, etcd_prefix)
    new = zketcd(own_etcd_server.endpoint, COPY)
    with java_virtual_machine() as jvm, zketcd(etcd_server.endpoint, etcd_prefix) as old, closing(new):
        client = curator(jvm, f"{old.address},{new.address}")
        with closing(client):
            mode = jvm.find("org.apache.zookeeper.CreateMode").EPHEMERAL
            client.create().withMode(mode).forPath("/alive")
            session = client.getZookeeperClient().getZooKeeper().getSessionId()
            assert main(["follow", source, *to, "--until-level", "--timeout", "60"]) == 0
            new.launch()  # waits for the move
            assert main(["follow", source, *to, "--finish", "--timeout", "60"]) == 0
            begun = time.monotonic()
            client.create().forPath("/after")
            print(f"the Java client waited for {time.monotonic() - begun:.1f} s")
            assert client.getZookeeperClient().getZooKeeper().getSessionId() == session
            nodes = view(new.port)
            assert nodes["/alive"].stat.ephemeral_owner == session
            assert "/after" in nodes


def test_the_source_is_gone_and_comes_back(
    etcd_server: EtcdServer, own_etcd_server: EtcdServer, etcd_prefix: str, capsys: Capture
) -> None:
    to = ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]
    source = url_of(own_etcd_server, COPY)
    finish = ["follow", source, *to, "--finish", "--source-lost", "--timeout"]
    with zketcd(own_etcd_server.endpoint, COPY) as old, closing(Client(old.port)) as client:
        client.create("/copied", b"1")
        assert main(["follow", source, *to, "--until-level", "--timeout", "60"]) == 0
        client.create("/lost", b"2")
        old.kill()
    own_etcd_server.kill()
    assert main([*finish, "0.2"]) == 3
    told = capsys.readouterr()
    assert "was not reached within 0.2 s: run this command again" in told.err
    epoch = int(told.out.rpartition("finished: zxids go on at ")[2].split()[0], 16) >> 32
    with zketcd(etcd_server.endpoint, etcd_prefix) as new, closing(Client(new.port)) as client:
        client.create("/new", b"3")
        assert client.last_zxid >> 32 == epoch > 0
        assert {"/copied", "/new"} < view(new.port).keys()
        assert "/lost" not in view(new.port)
    own_etcd_server.start()
    assert main([*finish, "60"]) == 0
    assert "is sealed at position" in capsys.readouterr().out
    with pytest.raises(StartFailed, match=f"was moved to the prefix {etcd_prefix} of the etcd at"):
        zketcd(own_etcd_server.endpoint, COPY).start()
    assert main(["lost", source, *to]) == 0
    changes = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["change"], each["path"], each["data"]) for each in changes] == [("created", "/lost", "2")]


def test_a_source_stops_without_its_standby(
    etcd_server: EtcdServer, own_etcd_server: EtcdServer, etcd_prefix: str, capsys: Capture
) -> None:
    """While the link is cut; then it is mended, and when it is cut again, the copy is served."""
    to = ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]
    silent = "closing all connections: the standby has not been heard within 5 s"
    with zketcd(own_etcd_server.endpoint, COPY):
        pass  # it makes the tree
    within = ["--standby-within", "5"]
    old = ZketcdServer(own_etcd_server.endpoint, prefix=COPY, arguments=within)
    new = zketcd(etcd_server.endpoint, etcd_prefix)
    with Link(own_etcd_server.port) as link:
        source = f"etcd://127.0.0.1:{link.port}{COPY}"
        following = PipelineCommand("follow", source, *to, *within)
        with following, old, closing(new), Comer(old.port, new.port) as comer:
            comer.go_on()
            wait_until(lambda: "a follower has signed" in old.log_text(), "the source needs its standby", 60)
            link.block()
            wait_until(lambda: silent in old.log_text(), "the source has stopped", 60)
            link.unblock()
            comer.go_on()
            link.block()
            assert main(["follow", source, *to, "--finish", "--source-lost", "--timeout", "0.2"]) == 3
            told = capsys.readouterr()
            assert "waiting 6 s, until the source's proxies do not answer any more" in told.err
            assert "finished: zxids go on at" in told.out
            wait_until(lambda: old.log_text().count(silent) == 2, "the source has stopped again", 60)
            new.start()
            epoch = int(told.out.rpartition("finished: zxids go on at ")[2].split()[0], 16) >> 32
            assert comer.go_on() >> 32 == epoch > 0


def test_what_is_refused(etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path, capsys: Capture) -> None:
    with zketcd(etcd_server.endpoint, etcd_prefix):
        pass
    source = url_of(etcd_server, etcd_prefix)

    def refused(*arguments: str) -> str:
        assert main(["follow", *arguments]) == 2
        return capsys.readouterr().err

    for prefix in (etcd_prefix, f"{etcd_prefix}/below"):
        to = ["--etcd", etcd_server.endpoint, "--prefix", prefix]
        assert "are in one tree: name another --prefix" in refused(source, *to)
    to = ["--etcd", etcd_server.endpoint, "--prefix", f"{etcd_prefix}-copy"]
    assert "--repair is for a ZooKeeper's directory" in refused(source, *to, "--repair", "tail")
    assert "--source-lost goes with --finish" in refused(source, *to, "--source-lost")
    assert "needs a source in etcd" in refused(f"archive:{tmp_path}", *to, "--standby-within", "5")
    assert "--standby-within does not go with --check" in refused(
        source, *to, "--check", "--standby-within", "5"
    )
    assert "does not follow another zketcd" in refused(source, *to, "--finish", "--source-lost")
    assert main(["lost", str(tmp_path), *to]) == 2
    assert "is not config:FILE, etcd://HOST:PORT/PREFIX or archive:URL" in capsys.readouterr().err
    assert "cannot be reached" in refused("etcd://127.0.0.1:1/zketcd", *to, "--until-level")
    assert "there is no tree under /none" in refused(f"etcd://{etcd_server.address}/none", *to)
    assert "there is no directory" in refused(f"archive:{tmp_path}/none", *to)
    assert "the archive is empty" in refused(f"archive:{tmp_path}", *to)
    assert "is no directory, config:FILE, etcd://HOST:PORT/PREFIX or" in refused(f"{tmp_path}/none", *to)
    assert "cannot be sealed" in refused(f"archive:{tmp_path}", *to, "--finish")
    assert main(["follow", source, *to, "--until-level"]) == 0
    copy = url_of(etcd_server, f"{etcd_prefix}-copy")
    assert f"follows this very tree, {etcd_prefix} of --etcd" in refused(copy, *to[:3], etcd_prefix)
    assert "follows no other tree" in refused(source, *to[:2], "--prefix", etcd_prefix + "-none", "--check")
