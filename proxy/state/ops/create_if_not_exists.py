"""createIfNotExists of Keeper: create that also succeeds if the node exists."""

from codec.constants import ErrorCode
from codec.jute import STRAIGHT, Acl, Steps, pack_string
from codec.packets import decode_create, present
from proxy.state.effect import Effect
from proxy.state.operation import Holds, WriteOperation
from proxy.state.ops.create import SEQUENTIAL, create
from proxy.state.outcome import Refusal
from proxy.state.transaction import Transaction

_Fields = tuple[str, bytes | None, tuple[Acl, ...] | None, int]


def _decode(frame: bytes, position: int, steps: Steps = STRAIGHT) -> tuple[_Fields, int]:
    (path, data, acl, flags), end = decode_create(frame, position, steps)
    return (present(path, end), data, acl, flags), end


def apply(tx: Transaction, fields: _Fields) -> str:
    """The path, whether the node existed or was created. A sequential node never exists before."""
    path, _, _, flags = fields
    if flags & SEQUENTIAL:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    try:
        return create(tx, fields)[0]
    except Refusal as refusal:
        if refusal.code != ErrorCode.NODE_EXISTS:
            raise
        return path


CREATE_IF_NOT_EXISTS = WriteOperation(
    _decode,
    apply,
    pack_string,
    part=True,
    holds=Holds.PATH,
    has_acl=True,
    effect=Effect.CREATES,
    audited="create",
    counted="create",
)
