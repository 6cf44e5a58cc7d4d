"""The table of operations: every request that this server answers, by opcode. One file an operation.

Ping, auth and closeSession concern the connection or the session rather than the tree; `connection` and
`sessions` answer those.
"""

from codec.constants import OpCode
from proxy.operation import ReadOperation, WriteOperation
from proxy.ops.create import CREATE, CREATE2
from proxy.ops.delete import DELETE
from proxy.ops.multi import MULTI
from proxy.ops.reads import exists, get_acl, get_children, get_children2, get_data
from proxy.ops.set_acl import SET_ACL
from proxy.ops.set_data import SET_DATA
from proxy.ops.set_watches import set_watches
from proxy.ops.sync import SYNC

READS: dict[int, ReadOperation] = {
    OpCode.EXISTS: exists,
    OpCode.GET_DATA: get_data,
    OpCode.GET_CHILDREN: get_children,
    OpCode.GET_CHILDREN2: get_children2,
    OpCode.GET_ACL: get_acl,
    OpCode.SET_WATCHES: set_watches,
}

WRITES: dict[int, WriteOperation] = {
    OpCode.CREATE: CREATE,
    OpCode.CREATE2: CREATE2,
    OpCode.DELETE: DELETE,
    OpCode.SET_DATA: SET_DATA,
    OpCode.SET_ACL: SET_ACL,
    OpCode.MULTI: MULTI,
    OpCode.SYNC: SYNC,
}
