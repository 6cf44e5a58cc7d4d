"""Rows of traffic for tests."""

from pipeline.traffic.table import Operation, TrafficRow

DAY = 86_400_000
NOON = 1_790_000_000_000  # in milliseconds; 2026-09-21


def traffic(operation: str, path: str | None = None, **fields: object) -> TrafficRow:
    """A request of session 1, by default done."""
    plain = TrafficRow(
        time=NOON,
        zxid=1,
        session_id=1,
        operation=operation,
        path=path,
        bytes=0,
        size=20,
        mode="PERSISTENT" if operation.startswith("create") and path else None,
        parts=None,
        result="OK",
        paths=None,
        nodes=1 if operation.startswith("create") and path else 0,
        grown=0,
        position=7,
        proxy="p",
        number=1,
        request=0,
        identities=("ip:127.0.0.1",),
        cxid=None,
        file=None,
        offset=None,
    )
    return plain._replace(**fields)  # type: ignore[arg-type]


def part(operation: str, path: str, **fields: object) -> Operation:
    """An operation of a multi, by default done."""
    plain = Operation(operation, path, 0, "PERSISTENT" if operation == "create" else None, "OK")
    return plain._replace(**fields)  # type: ignore[arg-type]


def insert(table: str, number: int, **fields: object) -> TrafficRow:
    """What ClickHouse's first replica commits for an insert."""
    name = f"all_{number}_{number}_0"
    parts = (
        part("create", f"{table}/blocks/all_{number:032}", bytes=len(name)),
        part("create", f"{table}/log/log-{number:010}", bytes=80, mode="PERSISTENT_SEQUENTIAL"),
        part("create", f"{table}/replicas/r1/parts/{name}", bytes=150),
    )
    row = traffic("multi", parts=parts, bytes=230 + len(name), nodes=3, number=number)
    return row._replace(**fields)  # type: ignore[arg-type]


def lively() -> list[TrafficRow]:
    """Some of everything that views ask for."""
    table = "/clickhouse/tables/01/t"
    merged = (
        part("create", f"{table}/replicas/r2/parts/all_1_2_1", bytes=150),
        part("delete", f"{table}/replicas/r2/parts/all_1_1_0"),
        part("delete", f"{table}/replicas/r2/parts/all_2_2_0"),
    )
    queued = part("create", f"{table}/replicas/r2/queue/queue-0000000001", mode="PERSISTENT_SEQUENTIAL")
    flapping = [
        row
        for session in (5, 6, 7)
        for row in (
            traffic("create", "/app/alive", session_id=session, mode="EPHEMERAL", number=session),
            traffic("closeSession", session_id=session, paths=("/app/alive",), nodes=-1, number=10 + session),
        )
    ]
    return [
        traffic("createSession", session_id=5),
        insert(table, 1),
        insert(table, 2, time=NOON + 4000),
        traffic("multi", parts=(queued,), session_id=2, nodes=1, number=20),
        traffic("multi", parts=merged, session_id=2, nodes=-1, number=21),
        traffic("setData", "/app/config", bytes=9, number=22),
        traffic("setData", "/app/gone", bytes=9, number=23, result="NONODE"),
        traffic("create", "/locks/x-0000000007", mode="EPHEMERAL_SEQUENTIAL", number=24, time=NOON + DAY),
        *flapping,
    ]
