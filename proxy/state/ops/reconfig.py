"""reconfig, as a ZooKeeper without reconfigEnabled answers it: this server has no ensemble to change.

It goes through the log although it changes nothing, since ZooKeeper gives it a zxid. getConfig is a getData
of `/zookeeper/config`, which exists and is empty, as in a standalone ZooKeeper.
"""

from typing import NoReturn

from codec.constants import ErrorCode
from codec.jute import Reader
from codec.packets import decoder
from proxy.state.operation import Cost, WriteOperation, nothing
from proxy.state.outcome import Refusal
from proxy.state.transaction import Transaction


def _read(reader: Reader) -> tuple[str | None, ...]:
    servers = tuple(reader.string() for _ in ("joining servers", "leaving servers", "new members"))
    reader.long()  # the version of the configuration to replace
    return servers


def apply(_tx: Transaction, _servers: tuple[str | None, ...]) -> NoReturn:
    """RECONFIGDISABLED, after the whole request was decoded (PrepRequestProcessor, case reconfig)."""
    raise Refusal(ErrorCode.RECONFIG_DISABLED)


RECONFIG = WriteOperation(
    decoder(_read), apply, nothing, cost=Cost.BYTES, has_path=False, audited="reconfig", word="RECO"
)
