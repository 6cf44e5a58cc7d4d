"""Rows of the znodes' table as Arrow record batches, and back.

Column-wise: an object for each cell would cost more than all the rest.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from pipeline.table import ZNODES, AclRow, ZnodeRow

ROWS = 4096  # in one batch

_ACL = ZnodeRow._fields.index("acl")


def batch_of(rows: Sequence[ZnodeRow]) -> pa.RecordBatch:
    """`rows`, of which there is at least one, as one batch of the schema ZNODES."""
    columns = [
        pa.array(column, type=field.type)
        for column, field in zip(zip(*rows, strict=True), ZNODES, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ZNODES)


def rows_of(batch: pa.RecordBatch) -> Iterator[ZnodeRow]:
    """The rows of a batch that has the columns of ZNODES, in any order. Raises ValueError if one lacks."""
    missing = [name for name in ZnodeRow._fields if name not in batch.schema.names]
    if missing:
        raise ValueError(f"no table of znodes: the columns {', '.join(missing)} are missing")
    columns = [batch.column(name).to_pylist() for name in ZnodeRow._fields]
    # Few nodes have an ACL of their own, and few ACLs differ.
    known: dict[tuple[tuple[int, str, str], ...], tuple[AclRow, ...]] = {}
    columns[_ACL] = [None if acl is None else _acl(acl, known) for acl in columns[_ACL]]
    return map(ZnodeRow._make, zip(*columns, strict=True))


def _acl(
    entries: list[dict[str, int | str]],
    known: dict[tuple[tuple[int, str, str], ...], tuple[AclRow, ...]],
) -> tuple[AclRow, ...]:
    key = tuple((int(entry["perms"]), str(entry["scheme"]), str(entry["id"])) for entry in entries)
    acl = known.get(key)
    if acl is None:
        acl = known[key] = tuple(map(AclRow._make, key))
    return acl
