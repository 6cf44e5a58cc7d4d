"""reconfig, as a ZooKeeper without reconfigEnabled answers it: there is no ensemble here to change.

getConfig is a getData of `/zookeeper/config`, which is there and empty, as a standalone ZooKeeper's.
"""

from codec.constants import ErrorCode
from codec.jute import Reader
from proxy.operation import Client, Reading
from proxy.refusal import Refusal


def reconfig(_reading: Reading, _client: Client, frame: bytes, position: int) -> bytes:
    """RECONFIGDISABLED, once the request is read whole (PrepRequestProcessor, case reconfig)."""
    reader = Reader(frame, position)
    for _ in ("joining servers", "leaving servers", "new members"):
        reader.string()
    reader.long()  # the version of the configuration that is to be replaced
    raise Refusal(ErrorCode.RECONFIG_DISABLED)
