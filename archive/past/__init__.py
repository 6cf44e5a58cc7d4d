"""What an archive tells: the state at a moment, and what has happened.

state      the state at a moment              history    the changes of a node or a subtree
difference, deletion    what differs between two states, and how a subtree was deleted
rows       both as a table, `parquet` as such a file; `query` makes one for the admin port
feed       the changes behind a zxid, for one reader of /changes
revert     plans how a subtree is brought back
listing, verify    the archive itself
"""
