"""Every wrong source, target and option: one clear line without Spark's words, exit code 2, no waiting."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from lab.servers import EtcdServer, free_port
from pipeline.etcd import reach
from pipeline.jobs.failure import reason_of
from pipeline.live import walk
from tests.pipeline.trees import SAMPLES, node, write_parquet, write_snapshot
from tests.table import one_by_one
from zketcd.__main__ import main

SAMPLE = str(SAMPLES / "zk39-plain")
ETCD = ["--etcd", "http://127.0.0.1:1"]  # no process listens there


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one of everything that is wrong."""
    tmp_path = tmp_path_factory.mktemp("wrong")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    write_snapshot(tmp_path / "cut", 5, [node("/", 0)]).write_bytes(b"ZKSN")
    (tmp_path / "notparquet").mkdir()
    (tmp_path / "notparquet" / "0.parquet").write_text("no Parquet")
    (tmp_path / "used" / "version-2").mkdir(parents=True)
    write_snapshot(tmp_path / "used" / "version-2", 5, [node("/", 0)])
    write_parquet(tmp_path / "table", node("/", 0))
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "version-2").touch()
    (tmp_path / "dir.html").mkdir()
    (tmp_path / "bad.pem").write_text("no certificate")
    return tmp_path


#: Trees as verify, inspect and import name them, with what is said of each.
TREES = [
    ("", "the path of a data directory is empty"),
    ("{files}/nothing", "nothing: is not there"),
    ("{files}/file", "file: is not a directory"),
    ("{files}/empty", "empty: holds no snapshot"),
    ("{files}/cut", "cut: holds no valid snapshot"),
    ("parquet:", "parquet: names no directory"),
    ("parquet:{files}/nothing", "nothing is not there"),
    ("parquet:{files}/empty", "empty is no table of znodes: it has no Parquet files"),
    ("parquet:{files}/notparquet", "0.parquet is no Parquet file"),
    ("zk://", "'' is not HOST:PORT"),
    ("zk://ho st", "'ho st' is not HOST:PORT"),
    ("zk://host:0", "'host:0' is not HOST:PORT"),
    ("zk://host,,b", "'' is not HOST:PORT"),
    ("zk://host:99999", "'host:99999' is not HOST:PORT"),
    ("zk://127.0.0.1:1", "no server answers: 127.0.0.1:1"),
    ("zk://no-such-host.invalid:1", "no server answers: no-such-host.invalid:1"),
    ("ftp://host/x", "ftp://host/x is none of"),
]
OF_IMPORT = [
    ("http://127.0.0.1:1", "127.0.0.1:1: [Errno 111]"),
    ("http://", "http://: "),
    ("https://127.0.0.1:1", "127.0.0.1:1: [Errno 111]"),
]
OF_ETCD = [
    ("etcd://", "is not etcd://HOST:PORT/PREFIX"),
    ("etcd://127.0.0.1:1", "is not etcd://HOST:PORT/PREFIX"),
    ("etcd://127.0.0.1:1/a//b", "hold '//'"),
    ("etcd://127.0.0.1:1?prefix=", "must not be empty"),
    ("etcd://127.0.0.1:1?prefix=a/", "must not be empty, end with '/'"),
    ("etcd://127.0.0.1:1/a", "etcd at http://127.0.0.1:1 cannot be reached"),
    ("etcds://127.0.0.1:1/a", "etcd at https://127.0.0.1:1 cannot be reached"),
    ("etcd://no-such-host.invalid:1/a", "cannot be reached"),
    ("etcd://127.0.0.1:what/a", "what"),
    ("etcd://127.0.0.1:99999/a", "127.0.0.1:99999"),
]
#: Command lines, with what is said.
LINES = [
    (["inspect"], "the following arguments are required: tree"),
    (["inspect", SAMPLE, "--top", "many"], "'many' is not a whole number"),
    (["inspect", SAMPLE, "--repair", "all"], "--repair is of gap, tail, not all"),
    (["inspect", SAMPLE, "--snapshot", "snapshot.9"], "holds no snapshot snapshot.9"),
    (["inspect", SAMPLE, "--data-log-dir", "/nowhere"], "/nowhere: is not there"),
    (["inspect", SAMPLE, "--auth", "digest"], "--auth: it is not SCHEME:ID"),
    (["inspect", "zk://127.0.0.1:1", "--snapshot", "x"], "--snapshot is for data directories"),
    (["inspect", "etcd://127.0.0.1:1/a", "--repair", "tail"], "--repair is for data directories"),
    (["inspect", "etcd://127.0.0.1:1/a", "--etcd-user", "me"], "etcd-password-file must be given together"),
    (["inspect", "etcds://127.0.0.1:1/a", "--etcd-ca", "/nowhere"], "'/nowhere' is not a readable file"),
    (["inspect", "etcds://127.0.0.1:1/a", "--etcd-ca", "{files}/bad.pem"], "bad.pem"),
    (["verify", "ftp://x", SAMPLE], "ftp://x is none of"),
    (["verify", "{files}/nothing", "{files}/empty"], "nothing: is not there"),
    (["verify", "etcd://host:1/a", SAMPLE, "--etcd-user", "me"], "etcd-password-file must be given together"),
    (["verify", SAMPLE], "the following arguments are required: right"),
    (["verify", SAMPLE, SAMPLE, "--ignore", "a"], "--ignore 'a': a znode's path begins with /"),
    (["import", SAMPLE], "--etcd is missing"),
    (["import", SAMPLE, "--etcd", "ftp://x"], "ftp://x"),
    (["import", SAMPLE, "--etcd", ""], "'' is not an etcd endpoint"),
    (["import", SAMPLE, *ETCD], "etcd at http://127.0.0.1:1 cannot be reached"),
    (["import", SAMPLE, *ETCD, "--prefix", "bad//prefix"], "prefix"),
    # A variable of a script that is not set: --overwrite must not delete the default tree.
    (["import", SAMPLE, *ETCD, "--prefix", "", "--overwrite"], "must not be empty"),
    (
        ["import", SAMPLE, *ETCD, "--etcd-cert", "{files}/bad.pem"],
        "etcd-cert and --etcd-key must be given together",
    ),
    (["import", SAMPLE, *ETCD, "--max-txn-ops", "0"], "'0' is not a whole number from 1 up"),
    (["import", "zk://127.0.0.1:1", *ETCD, "--data-log-dir", "x"], "--data-log-dir is for data directories"),
    (["export", "{files}/new"], "--etcd is missing"),
    (["export", "{files}/new", *ETCD], "etcd at http://127.0.0.1:1 cannot be reached"),
    (["export", "{files}/new", *ETCD, "--at", "10m"], "--at needs --archive"),
    (["inspect", SAMPLE, "--etcd-user", "me"], "--etcd-user is for etcd:// and etcds://"),
    (["inspect", "archive:{files}/typo"], "there is no directory"),
    (["export", "{files}/new", *ETCD, "--follow"], "etcd at http://127.0.0.1:1 cannot be reached"),
    (["follow", "{files}/empty", *ETCD], "etcd at http://127.0.0.1:1 cannot be reached"),
    (["export", "", *ETCD], "'' is neither a directory nor parquet:DIRECTORY"),
    (["export", "zk://host:1", *ETCD], "'zk://host:1' is neither"),
    (["export", "{files}/file", *ETCD], "file is not a directory"),
    (["export", "{files}/used", *ETCD], "holds snapshot.5 already"),
    (["export", "{files}/odd", *ETCD], "version-2 is not a directory"),
    (["export", "parquet:", *ETCD], "parquet: names no directory"),
    (["export", "parquet:{files}/table", *ETCD], "table is there already"),
    (["export", "parquet:{files}/file/table", *ETCD], "file is not a directory"),
    (["export", "parquet:{files}/new", *ETCD, "--compression", "gz"], "--compression is for ZooKeeper's"),
    (["export", "/proc/new/data", *ETCD], "/proc cannot be written to: "),
    (["export", "parquet:/proc/new", *ETCD], "/proc cannot be written to: "),
    (["export", "{files}/new", *ETCD, "--timeout=1"], "--timeout go"),
    (["export", "{files}/new", *ETCD, "--follow", "--keep-sessions"], "does not go with --follow"),
    (["export", "{files}/new", *ETCD, "--follow", "--dry-run"], "--dry-run does not go with --follow"),
    (["export", "{files}/new", *ETCD, "--follow", "--compression=gz"], "does not go with --follow"),
    (["export", "parquet:{files}/new", *ETCD, "--follow"], "not a table"),
    (["follow", "{files}/empty", *ETCD, "--timeout=1"], "--timeout go"),
    (["follow", "{files}/none", *ETCD], "none is no directory"),
    (["follow", "{files}/empty", "--zxid=5x"], "'5x' is no zxid, such as 0x"),
    (["follow", "{files}/empty", "--log-timeout=long"], "'long' is not a number of seconds"),
    (["inspect", "--traffic", "zk://127.0.0.1:1"], "--traffic reads etcd://HOST:PORT/PREFIX, etcds://"),
    (["inspect", "--traffic", "etcd://127.0.0.1:1"], "is not etcd://HOST:PORT/PREFIX"),
    (["inspect", "--traffic", SAMPLE, "--report", "x.pdf"], "has to end with .html or .png"),
    (["inspect", "--traffic", SAMPLE, "--report", "/no/such/x.png"], "there is no directory /no/such"),
    (["inspect", "--traffic", SAMPLE, "--report", "{files}/dir.html"], "dir.html is a directory"),
    (["inspect", "--traffic", "/no/such"], "/no/such"),
    (["inspect", "--traffic", "{files}/dir.html"], "dir.html: holds no snapshot and no log"),
    (["inspect", "--traffic", "parquet:"], "parquet: names no directory"),
    (["inspect", "--traffic", "parquet:/no/such"], "/no/such is not there"),
    (["inspect", "--traffic", "parquet:{files}/dir.html"], "it has no Parquet files"),
    (["inspect", "--traffic", "parquet:{files}/table"], "no table of traffic: the columns time, "),
    (["inspect", "--traffic", "parquet:{files}/table", "--no-spark"], "only Spark reads a table of traffic"),
    (
        ["inspect", "--traffic", "etcd://127.0.0.1:1/a", "--repair", "tail"],
        "--repair is for data directories",
    ),
    (["inspect", "--traffic", SAMPLE, "--snapshot", "snapshot.0"], "--traffic has no use for --snapshot"),
    (["inspect", "--traffic", SAMPLE, "--no-logs"], "--traffic has no use for --no-logs"),
    (["inspect", SAMPLE, "--report", "x.html"], "--report goes with --traffic"),
]


def cases() -> Iterator[tuple[list[str], str]]:
    yield from LINES
    for tree, reason in TREES + OF_ETCD:
        yield ["inspect", tree], reason
        yield ["verify", SAMPLE, tree], reason
    for tree, reason in TREES + OF_IMPORT:
        yield ["import", tree, "--etcd", "{etcd}", "--prefix", "/wrong-inputs"], reason


def check(words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says why."""
    try:
        code = main(words)
    except SystemExit as ended:
        code = int(ended.code or 0)
    told = capsys.readouterr()
    lines = told.err.splitlines()
    assert code == 2, told
    assert reason in lines[-1]
    assert "Traceback" not in told.err
    assert len(lines) == 1
    assert lines[0].startswith(f"zketcd {words[0]}: ")
    assert told.out == ""


def says_it_in_one_line(
    words: list[str],
    reason: str,
    files: Path,
    etcd: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("ZKETCD_ETCD", raising=False)
    monkeypatch.setattr(reach, "TIMEOUT", 0.5)  # what is refused now is refused in 4 s
    check([word.replace("{files}", str(files)).replace("{etcd}", etcd) for word in words], reason, capsys)


@pytest.mark.long
@one_by_one(("words", "reason"), [case for case in cases() if "{etcd}" not in case[0]])
def test_one_clear_line(
    words: list[str],
    reason: str,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    says_it_in_one_line(words, reason, files, "", monkeypatch, capsys)


@one_by_one(("words", "reason"), [case for case in cases() if "{etcd}" in case[0]])
def test_one_clear_line_of_an_import(
    words: list[str],
    reason: str,
    files: Path,
    etcd_server: EtcdServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    says_it_in_one_line(words, reason, files, etcd_server.endpoint, monkeypatch, capsys)


def test_an_etcd_without_tls(etcd_server: EtcdServer, capsys: pytest.CaptureFixture[str]) -> None:
    check(["inspect", f"etcds://{etcd_server.address}/a"], "Does this etcd use TLS?", capsys)


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.timeout(60)  # a timeout of a minute or more would be too long
@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ("zk://127.0.0.1:{port}", "no answer in time"),
        ("etcd://127.0.0.1:{port}/a", "is this etcd's client port"),
        ("etcds://127.0.0.1:{port}/a", "does this port speak TLS?"),
    ],
)
def test_a_port_that_says_nothing(
    tree: str, reason: str, silent: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reach, "TIMEOUT", 1.0)
    monkeypatch.setattr(walk, "CONNECT_S", 1.0)
    check(["inspect", tree.replace("{port}", str(silent))], reason, capsys)


_TRACE = (
    '[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n  File "x.py", line 1, in f\n'
)


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("ValueError: /out holds log.1 already", "/out holds log.1 already"),
        ("FileNotFoundError: [Errno 2] No such file: 'x'", "[Errno 2] No such file: 'x'"),
        ("pyarrow.lib.ArrowInvalid: no such column", "no such column"),
        ("pipeline.formats.errors.BadFile: x, byte 5: is cut", "x, byte 5: is cut"),
    ],
)
def test_an_error_of_a_worker(raised: str, told: str) -> None:
    assert reason_of(PySparkException(f"{_TRACE}{raised}\n\n\tat org.apache.spark.X.y(X.scala:5)")) == told


def test_spark_s_own_words() -> None:
    assert reason_of(PySparkException("[PATH_NOT_FOUND] no path\nmore")) == "[PATH_NOT_FOUND] no path"
