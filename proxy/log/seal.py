"""Seals a tree that has moved to another etcd or prefix: what is here ends at one position, for every proxy.

One Txn puts into the tree's record where the tree has gone, and deletes the keys of all living proxies. Each
append compares the key of its proxy, and each registration that no record was put since the one that the
proxy knows (rule 1.6 of docs/architecture.md). So nothing is appended behind the seal, and a write that was
acknowledged lies before it.
"""

from proxy.etcd.interface import Etcd
from proxy.etcd.model import Compare, Delete, Put, Txn
from proxy.etcd.repeating import until_known
from proxy.log.record import TIMEOUT, TreeSealed, complete_record, look
from schema.keys import Keyspace
from schema.record import Seal, encode_record


async def seal(etcd: Etcd, keys: Keyspace, where: Seal) -> int:
    """Seal the tree under `keys`, which has moved to `where`; returns the position of the seal.

    Entries above this position have no effect. The answer is the same however often this is called, with
    or without living proxies. Raises TreeSealed if the tree has moved to another place, TreeNotServable if
    there is no complete tree, EtcdError.
    """
    while True:
        found = await until_known(look, etcd, keys)
        try:
            record = complete_record(found, keys)
        except TreeSealed as error:
            if error.seal.leads_to(where):
                return error.position
            raise
        assert found.pair is not None
        sealed = record._replace(complete=False, seal=where)
        # etcd's quota lets what is in an inner Txn pass: a full etcd is a reason to move.
        put = Txn((), (Put(keys.tree, encode_record(sealed)),))
        txn = Txn(
            (Compare(keys.tree, found.pair.mod_revision),), (put, Delete(keys.proxies, keys.proxies_end))
        )
        answer = await until_known(etcd.txn, txn, TIMEOUT)
        if answer.succeeded:
            return answer.revision
        # Either the answer to an earlier try was lost, or the record was put for another reason.
