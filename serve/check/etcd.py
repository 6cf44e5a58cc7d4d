"""Each member of etcd, the access rights, and the tree. Nothing is written: not even a revision is used."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from http.client import HTTPException
from statistics import median

from ctl import clocks
from proxy.config import Config
from proxy.etcd import metrics, versions
from proxy.etcd.access import Access
from proxy.etcd.client import EtcdClient
from proxy.etcd.metrics import Metrics
from proxy.etcd.model import Compare, EtcdError, EtcdNoSpace, EtcdNoToken, EtcdRefused, Get, Put, Status, Txn
from proxy.etcd.tls import Tls
from proxy.log.record import TreeNotServable, is_copy, living_of, look, servable
from proxy.state.level import KNOWN
from schema.errors import BadValue
from schema.followed import Lag, decode_lag
from schema.keys import Keyspace
from serve.check.finding import Finding, doubtful, good, wrong
from serve.check.peers import check_peers

_TIMEOUT = 5.0  # seconds for each request
_READS = 10
_OLD_COPY = 60.0  # seconds, as the alert ZketcdCopyBehind
_SLOW_READ = 0.05  # seconds; a write takes at least as long
_SLOW_FSYNC = 0.025  # seconds; etcd's documentation wants 0.01 for 99 of 100
_NEARLY_FULL = 0.8  # of the quota
_LATE_COMPACTION = 1_000_000  # revisions
_FRAGMENTED_BYTES = 256 << 20
_SLOW_LOGINS = "its logins are slow, since each costs it one bcrypt. Run the check again; lower --bcrypt-cost"
_FSYNC = "etcd_disk_wal_fsync_duration_seconds_bucket"


async def check_etcd(config: Config, tls: Tls) -> AsyncIterator[Finding]:
    """All findings."""
    clusters = {}
    for endpoint in config.etcd:
        client = _client(config, (endpoint,), tls)
        try:
            status = await client.status(_TIMEOUT)
        except EtcdError as error:
            yield await _why_not(endpoint, error)
            continue
        finally:
            await client.close()
        clusters[endpoint] = status.cluster_id
        measured = await asyncio.to_thread(metrics.read, endpoint, tls)
        if measured is not None:
            status = measured.completed(status)
        if not status.version:
            yield doubtful(
                endpoint, "its state is unknown: it tells it to root alone, and shows no metrics here"
            )
            continue
        for found in _member(endpoint, status):
            yield found
        for found in _measured(endpoint, status, measured, config.etcd_reserve):
            yield found
        if measured is not None:
            yield _clocks(endpoint, time.time() - measured.date)
    if len(set(clusters.values())) > 1:
        yield wrong("--etcd", "the endpoints are members of different clusters")
    if clusters:
        client = _client(config, tuple(clusters), tls)
        try:
            async for found in _tree(client, Keyspace(config.prefix)):
                yield found
        finally:
            await client.close()


def _client(config: Config, endpoints: tuple[str, ...], tls: Tls) -> EtcdClient:
    return Access(endpoints, config.etcd_access).client(tls)


async def _why_not(endpoint: str, error: EtcdError) -> Finding:
    """Why a member does not answer: its logins are slow, or it speaks TLS and should not, or the reverse."""
    scheme, _, host = endpoint.rpartition("://")
    tls, plain = f"https://{host}", f"http://{host}"
    if isinstance(error, EtcdNoToken) and await asyncio.to_thread(
        _answers, tls if scheme == "https" else plain
    ):
        return doubtful(endpoint, f"{error}, but it answers: {_SLOW_LOGINS}")
    if scheme == "https":
        if await asyncio.to_thread(_answers, plain):
            return wrong(endpoint, "this etcd does not use TLS: its URL is http://")
    elif scheme != "unix" and await asyncio.to_thread(_answers, tls):
        return wrong(endpoint, "this etcd uses TLS: its URL is https://, and --etcd-ca names its authority")
    return wrong(endpoint, str(error) if isinstance(error, EtcdRefused) else f"it does not answer: {error}")


def _answers(url: str) -> bool:
    """Whether an HTTP server answers, or refuses a connection for a reason of TLS's."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with metrics.opened(url, "/version", context):
            return True
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        return isinstance(reason, ssl.SSLError) and "CERTIFICATE_REQUIRED" in str(reason)


def _member(endpoint: str, status: Status) -> Iterator[Finding]:
    """What a member says of itself."""
    version = versions.parse(status.version)
    said = versions.warnings(status.version)
    if version is None:
        yield doubtful(endpoint, f"unknown version {status.version!r}")
    for text in said:
        yield (doubtful if version and versions.usable(version) else wrong)(endpoint, text)
    if version and not said:
        yield good(endpoint, f"etcd {version}, without known defects that concern zketcd")
    if status.leader:
        yield good(endpoint, "it has a leader")
    else:
        yield wrong(endpoint, "it has no leader: more than half of the members have to run")
    for alarm in status.errors or ():
        yield wrong(endpoint, f"alarm: {alarm}")
    if status.errors is None:
        yield doubtful(
            endpoint, "its alarms are unknown: it does not tell them to this user, or has no quorum"
        )
    unused = status.db_size - status.db_size_in_use
    if unused > _FRAGMENTED_BYTES and unused > status.db_size_in_use:
        # After 5 s, its default, etcdctl begins with the next member, though this one goes on.
        yield doubtful(
            endpoint,
            f"{unused >> 20} MiB of its database are unused: run `etcdctl defrag --command-timeout 30m`",
        )


def _clocks(endpoint: str, skew: float) -> Finding:
    if abs(skew) > clocks.DIFFER:
        return doubtful(endpoint, f"its clock and ours differ by {abs(skew):.0f} s: use NTP")
    return good(endpoint, "its clock and ours agree")


async def _copy(etcd: EtcdClient, keys: Keyspace) -> Finding:
    """A tree that follows another one: no proxy of it is listed before the cut-over."""
    there = (await etcd.range(Get(keys.lag), _TIMEOUT)).kvs
    lag = decode_lag(there[0].value) if there else Lag(0, 0)
    what = f"the tree under {keys.prefix.decode()} follows another one"
    if not lag.level_ms:
        return doubtful("--prefix", f"{what}, and was not level yet")
    age = max(0.0, time.time() - lag.level_ms / 1000)
    grade = doubtful if age > _OLD_COPY else good
    return grade("--prefix", f"{what}: at zxid 0x{lag.zxid:x}, level {age:.1f} s ago")


def _clock_of(who: str, ahead: float | str) -> Finding:
    """What the clock of a proxy is compared with this host's."""
    if isinstance(ahead, str):
        return good(who, f"its clock is unknown: {ahead}")
    if abs(ahead) > clocks.DIFFER:
        where = "ahead of" if ahead > 0 else "behind"
        return doubtful(who, f"its clock is {abs(ahead):.0f} s {where} this host's: use NTP on both")
    return good(who, "its clock and ours agree")


def _measured(endpoint: str, status: Status, found: Metrics | None, reserve: int) -> Iterator[Finding]:
    """What a member's metrics say. `reserve`: percent of the quota."""
    size = f"its database has {status.db_size >> 20} MiB"
    if found is None:
        yield good(
            endpoint, f"{size}; it shows no metrics here: quota, compaction, fsync and clock are unknown"
        )
        return
    samples = found.samples
    quota = samples.get(metrics.QUOTA, 0)
    if not quota:
        yield good(endpoint, f"{size}; this version does not show the quota, which is 2048 MiB by default")
    elif quota < 0:
        yield good(endpoint, f"{size} and no quota: --etcd-reserve has no effect")
    elif reserve and status.db_size_in_use > quota * (100 - reserve) / 100:
        yield wrong(
            endpoint,
            f"nearly full: {status.db_size_in_use >> 20} of {int(quota) >> 20} MiB are in use, and"
            f" --etcd-reserve is {reserve} %. zketcd refuses requests that make the tree grow: delete znodes,"
            " compact, or raise --quota-backend-bytes",
        )
    elif status.db_size > _NEARLY_FULL * quota:
        yield doubtful(endpoint, f"{size} of {int(quota) >> 20} MiB: raise --quota-backend-bytes")
    else:
        yield good(endpoint, f"{size} of {int(quota) >> 20} MiB")
    compacted = int(samples.get("etcd_debugging_mvcc_compact_revision", 0))
    if status.revision - max(0, compacted) > _LATE_COMPACTION:
        yield doubtful(
            endpoint,
            f"the last {status.revision - max(0, compacted)} revisions are not compacted: set"
            " --auto-compaction-retention",
        )
    else:
        yield good(endpoint, "no more revisions wait for compaction than should")
    slowest = _quantile(samples, 0.99)
    if slowest is None:
        yield good(endpoint, "it has not written to its log yet: fsync is unknown")
    elif slowest > _SLOW_FSYNC:
        yield doubtful(
            endpoint, f"fsync takes up to {slowest * 1000:.0f} ms in 99 of 100 cases: use a faster disk"
        )
    else:
        yield good(endpoint, f"fsync takes up to {slowest * 1000:.0f} ms in 99 of 100 cases")


def _quantile(samples: Mapping[str, float], share: float) -> float | None:
    """The upper end of the bucket that has this quantile of fsync's times; None without times."""
    buckets = sorted(
        (float(name.partition('le="')[2].partition('"')[0]), count)
        for name, count in samples.items()
        if name.startswith(_FSYNC)
    )
    total = buckets[-1][1] if buckets else 0
    return next((end for end, count in buckets if count >= share * total), None) if total else None


async def _tree(etcd: EtcdClient, keys: Keyspace) -> AsyncIterator[Finding]:
    """Rights, round trip, and what is under the prefix."""
    prefix = keys.prefix.decode()
    # etcd checks the rights of both branches. No key has a negative revision, so nothing is written.
    writes = Txn(
        (Compare(keys.tree, -1),),
        (Put(keys.tree, b""), Put(keys.proxies, b"")),
        (Get(keys.tree, keys_only=True),),
    )
    try:
        await etcd.txn(writes, _TIMEOUT)
        took = []
        for _ in range(_READS):
            began = time.perf_counter()
            await etcd.range(Get(keys.tree, keys_only=True), _TIMEOUT)
            took.append(time.perf_counter() - began)
    except EtcdNoSpace as error:
        yield wrong("--etcd", f"etcd has no space left: {error}")
        return
    except EtcdNoToken as error:  # its members have answered
        yield doubtful(
            "--prefix", f"whether {prefix} may be read and written is unknown: {error}: {_SLOW_LOGINS}"
        )
        return
    except EtcdError as error:
        yield wrong("--prefix", f"{prefix} cannot be read and written: {error}")
        return
    yield good("--prefix", f"{prefix} may be read and written")
    typical = median(took) * 1000
    slow = median(took) > _SLOW_READ
    yield (doubtful if slow else good)("--etcd", f"a linearizable read takes {typical:.1f} ms")
    try:
        found = await look(etcd, keys)
        if found.record is None and not found.proxies:
            yield good("--prefix", f"there is no tree under {prefix} yet: the first proxy creates it")
            return
        record = servable(found, keys, KNOWN, even_copy=True)
        if is_copy(found):
            yield await _copy(etcd, keys)
            return
    except (EtcdError, TreeNotServable, BadValue) as error:
        yield wrong("--prefix", str(error))
        return
    living = living_of(found, keys)
    homes = living.homes
    yield good("--prefix", f"the tree under {prefix} has level {record.level} and {len(homes)} live proxies")
    async for finding in check_peers(living.servers, median(took)):
        yield finding
    for name, ahead in (await asyncio.to_thread(clocks.ahead, homes)).items():
        yield _clock_of(f"proxy {name} on {homes[name].host or 'an unknown host'}", ahead)
