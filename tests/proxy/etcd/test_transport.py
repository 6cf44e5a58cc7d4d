"""The transports that there are keep to one contract."""

import inspect

import pytest

from proxy.etcd.grpc_channel import GrpcCall, GrpcChannel
from proxy.etcd.http2 import Call
from proxy.etcd.http2_channel import Http2Channel
from proxy.etcd.transport import ByteStream, Channel, RpcError, TransportMissing


@pytest.mark.parametrize(
    ("contract", "kind"),
    [(Channel, Http2Channel), (Channel, GrpcChannel), (ByteStream, Call), (ByteStream, GrpcCall)],
)
def test_a_transport_has_the_methods_of_the_contract(contract: type, kind: type) -> None:
    for name, method in vars(contract).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            ours = getattr(kind, name)
            assert list(inspect.signature(ours).parameters) == list(inspect.signature(method).parameters)
            assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(method)


def test_errors_keep_the_words_they_were_given() -> None:
    assert RpcError("why").details == str(RpcError("why")) == "why"
    assert issubclass(TransportMissing, ValueError)  # as any other wrong setting
