"""The hand-written encoding says what protobuf says, and answers are read whole."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.etcd import rpc_pb2 as pb
from proxy.etcd import wire
from proxy.etcd.model import (
    Compare,
    Delete,
    EtcdUnknown,
    Get,
    KeyValue,
    Op,
    Put,
    RangeResult,
    Txn,
    TxnResult,
    txn_size,
)
from tests.proxy.etcd.strategies import txns

NUMBERS = st.one_of(
    st.integers(min_value=-(2**63), max_value=2**63 - 1),
    st.sampled_from([0, 1, 127, 128, 16383, 16384, 2**31, 2**63 - 1, -1]),
)
LONG = st.sampled_from([b"x" * size for size in (1, 127, 128, 16383, 16384, 70000)])


def as_protobuf(txn: Txn) -> pb.TxnRequest:
    """The same Txn built with the generated classes."""
    return pb.TxnRequest(
        compare=[
            pb.Compare(
                target=pb.Compare.MOD,
                result=pb.Compare.LESS if compare.less else pb.Compare.EQUAL,
                key=compare.key,
                mod_revision=compare.mod_revision,
                range_end=compare.range_end,
            )
            for compare in txn.compares
        ],
        success=ops_as_protobuf(txn.success),
        failure=ops_as_protobuf(txn.failure),
    )


def get_as_protobuf(get: Get) -> pb.RangeRequest:
    return pb.RangeRequest(
        key=get.key, range_end=get.range_end, revision=get.revision, keys_only=get.keys_only, limit=get.limit
    )


def ops_as_protobuf(ops: Sequence[Op]) -> list[pb.RequestOp]:
    found = []
    for op in ops:
        if isinstance(op, Put):
            found.append(pb.RequestOp(request_put=pb.PutRequest(key=op.key, value=op.value, lease=op.lease)))
        elif isinstance(op, Delete):
            found.append(
                pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=op.key, range_end=op.range_end))
            )
        elif isinstance(op, Get):
            found.append(pb.RequestOp(request_range=get_as_protobuf(op)))
        else:
            found.append(pb.RequestOp(request_txn=as_protobuf(op)))
    return found


@given(txns(b"/", NUMBERS))
def test_a_txn_is_encoded_as_protobuf_would(txn: Txn) -> None:
    encoded = wire.encode_txn(txn)
    assert pb.TxnRequest.FromString(encoded) == as_protobuf(txn)
    assert len(encoded) <= txn_size(txn)


@given(LONG, LONG, NUMBERS, st.booleans())
def test_long_fields_and_large_numbers(key: bytes, end: bytes, number: int, flag: bool) -> None:
    get = Get(key, end, number, flag, number)
    txn = Txn([Compare(key, number, end, flag)], [Put(key, end, number), Delete(key, end)], [get])
    encoded = wire.encode_txn(txn)
    assert pb.TxnRequest.FromString(encoded) == as_protobuf(txn)
    assert len(encoded) <= txn_size(txn)
    assert pb.RangeRequest.FromString(wire.encode_get(get)) == get_as_protobuf(get)


def test_an_answer_is_read_by_the_shape_of_its_request() -> None:
    kv = pb.KeyValue(key=b"k", value=b"v", create_revision=3, mod_revision=4, version=2, lease=-5)
    message = pb.TxnResponse(
        header=pb.ResponseHeader(revision=9),
        succeeded=True,
        responses=[
            pb.ResponseOp(response_put=pb.PutResponse()),
            pb.ResponseOp(
                response_txn=pb.TxnResponse(
                    succeeded=False,
                    responses=[pb.ResponseOp(response_range=pb.RangeResponse(kvs=[kv], more=True, count=7))],
                )
            ),
            pb.ResponseOp(response_delete_range=pb.DeleteRangeResponse(deleted=1)),
        ],
    )
    txn = Txn([], [Put(b"k", b"v"), Txn([Compare(b"k", 0)], [], [Get(b"k")]), Delete(b"k")])
    page = RangeResult([KeyValue(b"k", b"v", 3, 4, 2, -5)], True, 7, 9)
    assert wire.decode_txn(txn, message.SerializeToString()) == TxnResult(
        True, 9, [None, TxnResult(False, 9, [page]), None]
    )


def response(fragment: bool, *revisions: int) -> pb.WatchResponse:
    """A watch response with one event for each revision given."""
    return pb.WatchResponse(
        header=pb.ResponseHeader(revision=100),
        fragment=fragment,
        events=[pb.Event(kv=pb.KeyValue(key=b"k", mod_revision=revision)) for revision in revisions],
    )


@given(st.lists(st.integers(min_value=1, max_value=4), min_size=1, max_size=8), st.data())
def test_fragments_cut_anywhere_join_to_whole_revisions(sizes: list[int], data: st.DataObject) -> None:
    revisions = [revision for revision, size in enumerate(sizes, 5) for _ in range(size)]
    cuts = sorted(
        data.draw(st.sets(st.integers(min_value=1, max_value=len(revisions) - 1)))
        if len(revisions) > 1
        else []
    )
    pieces = [revisions[a:b] for a, b in zip([0, *cuts], [*cuts, len(revisions)], strict=True)]
    joiner = wire.FragmentJoiner()
    got: list[int] = []
    for index, piece in enumerate(pieces):
        message = joiner.feed(response(index < len(pieces) - 1, *piece))
        if message is not None:
            mod_revisions = [event.kv.mod_revision for event in message.events]
            # Nothing of a revision that is given out may follow later.
            assert revisions.count(mod_revisions[-1]) == mod_revisions.count(mod_revisions[-1])
            got += mod_revisions
    assert got == revisions


@pytest.mark.parametrize(
    ("fragments", "whole"),
    [
        ([(5, 5, 6), (6, 6), (6, 7)], [[5, 5], None, [6, 6, 6, 6, 7]]),  # what is whole goes out at once
        ([(), (5,), (), (5,)], [None, None, None, [5, 5]]),
        ([()], [[]]),
        ([(5,)], [[5]]),
    ],
)
def test_fragments(fragments: list[tuple[int, ...]], whole: list[list[int] | None]) -> None:
    joiner = wire.FragmentJoiner()
    for place, (revisions, expected) in enumerate(zip(fragments, whole, strict=True), 1):
        message = joiner.feed(response(place < len(fragments), *revisions))
        if message is None:
            assert expected is None
        else:
            assert [event.kv.mod_revision for event in message.events] == expected
            assert message.revision == 100


# Found by fuzzing: answers that are no messages, or not those to their request, raised undocumented errors.


@pytest.mark.parametrize("read", [wire.decode_range, lambda data: wire.decode_txn(Txn([], [], []), data)])
def test_bytes_that_are_no_message_leave_the_outcome_unknown(read: Callable[[bytes], object]) -> None:
    with pytest.raises(EtcdUnknown, match="etcd's answer"):
        read(b"\0")


@pytest.mark.parametrize("inner", [Get(b"a"), Txn([], [Get(b"a")], [])])
def test_an_answer_with_too_few_results_leaves_the_outcome_unknown(inner: Op) -> None:
    answer = pb.TxnResponse(succeeded=True).SerializeToString()
    with pytest.raises(EtcdUnknown, match="etcd's answer"):
        wire.decode_txn(Txn([], [inner], []), answer)


def test_a_page_without_keys_that_says_there_are_more_is_no_answer() -> None:
    with pytest.raises(EtcdUnknown, match="more"):
        wire.decode_range(pb.RangeResponse(more=True).SerializeToString())


def test_a_txn_without_comparisons_cannot_fail() -> None:
    # Found with a server that answers everything with an empty message: a start ended by an unpacking error.
    with pytest.raises(EtcdUnknown, match="without any"):
        wire.decode_txn(Txn([], [Get(b"a")], []), b"")
