"""The table of operations: every request that this server answers, by opcode. One file an operation.

Ping, auth, sasl and closeSession concern the connection or the session rather than the tree; `connection` and
`sessions` answer those.
"""

from codec.constants import OpCode
from proxy.operation import ReadOperation, WriteOperation
from proxy.ops.add_watch import add_watch
from proxy.ops.check_watches import check_watches
from proxy.ops.create import CREATE, CREATE2, CREATE_CONTAINER, CREATE_TTL
from proxy.ops.delete import DELETE
from proxy.ops.delete_container import DELETE_CONTAINER
from proxy.ops.get_all_children_number import get_all_children_number
from proxy.ops.get_ephemerals import get_ephemerals
from proxy.ops.multi import MULTI
from proxy.ops.multi_read import multi_read
from proxy.ops.reads import exists, get_acl, get_children, get_children2, get_data
from proxy.ops.reconfig import reconfig
from proxy.ops.remove_watches import remove_watches
from proxy.ops.set_acl import SET_ACL
from proxy.ops.set_data import SET_DATA
from proxy.ops.set_watches import set_watches, set_watches2
from proxy.ops.sync import SYNC
from proxy.ops.who_am_i import who_am_i

READS: dict[int, ReadOperation] = {
    OpCode.EXISTS: exists,
    OpCode.GET_DATA: get_data,
    OpCode.GET_CHILDREN: get_children,
    OpCode.GET_CHILDREN2: get_children2,
    OpCode.GET_ACL: get_acl,
    OpCode.RECONFIG: reconfig,
    OpCode.CHECK_WATCHES: check_watches,
    OpCode.REMOVE_WATCHES: remove_watches,
    OpCode.MULTI_READ: multi_read,
    OpCode.SET_WATCHES: set_watches,
    OpCode.GET_EPHEMERALS: get_ephemerals,
    OpCode.GET_ALL_CHILDREN_NUMBER: get_all_children_number,
    OpCode.SET_WATCHES2: set_watches2,
    OpCode.ADD_WATCH: add_watch,
    OpCode.WHO_AM_I: who_am_i,
}

WRITES: dict[int, WriteOperation] = {
    OpCode.CREATE: CREATE,
    OpCode.CREATE2: CREATE2,
    OpCode.CREATE_CONTAINER: CREATE_CONTAINER,
    OpCode.CREATE_TTL: CREATE_TTL,
    OpCode.DELETE: DELETE,
    OpCode.DELETE_CONTAINER: DELETE_CONTAINER,
    OpCode.SET_DATA: SET_DATA,
    OpCode.SET_ACL: SET_ACL,
    OpCode.MULTI: MULTI,
    OpCode.SYNC: SYNC,
}
