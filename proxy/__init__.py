"""The server: ZooKeeper clients on one side, etcd on the other.

All proxies of a tree write the requests of their clients into one log in etcd, read the same log in the same
order, and apply it to the same state machine. A request is evaluated when it is applied, and the proxy that
sent it answers its client at that moment. Reads are answered from memory.

    client -> frontend -> log.append -> entry -> etcd
                                                  |
    client <- frontend <- log.applier <- log.follow <- watch stream
                               |
                         state.machine

The words used here:

log          the entries of all proxies, in the order in which they take effect
entry        the requests that one proxy sends to etcd together: one key, written by one Txn
outbox       batches requests (a multi is one request) into entries, numbers them, and remembers what was
             sent
append       to write an entry to the log
combiner     the proxy that appends the entries of several proxies in one Txn
apply        to evaluate the requests of an entry, with sequence numbers and versions; every proxy does so
             with every entry, with the same outcome
number       counts the entries of one incarnation: 1, 2, 3, ...; they take effect in this order, without gaps
position     the etcd revision at which an entry was written
replacement  fills a number whose entry etcd has refused: the entry without the requests that need space
void         an entry without requests
incarnation  the random name under which a proxy appends; it ends with the proxy's lease
visitor      a short-lived incarnation of a command that appends
carry over   to move the sessions of a proxy's former incarnation to its new one
proxy key    the key that shows that an incarnation lives; it has the proxy's lease
peer         another proxy of the tree
member       of etcd: one of its servers
eldest       the living proxy whose key is oldest; it ends the sessions of dead proxies and deletes due nodes
follow       to read the log as it grows, as each proxy does (`LogFollower`)
copy         a tree that `zketcd follow` keeps like another one, its source
follower     the process `zketcd follow`
base         of a copy: the snapshot by its follower that its log continues; a new one replaces the log
standby      a copy that takes over if the tree is lost; its follower shows that it lives
seal         in a record: where the tree has moved; no later entry counts
stream       what the watch and the reads after its breaks have delivered, in order
item         what the order makes of the stream: an entry to apply, a proxy that came or went, a new record
machine      the state machine: tree, sessions and counters, and how an entry changes them
session      as in ZooKeeper: part of the state; attached to the incarnation whose proxy serves its client
attach       to move a session to the incarnation of the proxy that its client has connected to
holder       the proxy that a session is attached to; it ends the session if the client is silent for too long
orphan       a session whose holder is dead
zxid         counts the requests that changed something or failed to, as ZooKeeper counts them
epoch        the upper half of zxids; a tree that was restored from a backup goes on in a new one
budget       how many writes, and bytes of data, all clients together may make below a path in a second
watch event  a notification to a client about a change that it watches; not an event of etcd's watch stream
digest       a sum of hashes over the whole state, by which proxies find out whether they agree
checkpoint   a digest with the count of entries at which it was taken; entries carry the newest one
snapshot     the state as of one position, written to etcd as pages
truncate     to delete the part of the log that no start needs any more
record       the key with the tree's settings and the names of its snapshots
level        the version of the state machine's rules that a tree uses
caught up    of a proxy: it has applied everything that was in etcd when it last asked
partially applied   of the state: a request or its watch events are half done; clients wait at the gate
slice        5 ms of long work, after which the event loop has its turn; work pauses where a slice may end
staleness    for how long a proxy has not caught up with etcd

The packages, each above those that it imports:

handover           one process takes over from another, with its clients
watchdog           ends the process if requests get no outcome although etcd answers
server             puts the parts together
past               the same for a moment of an archive, without a log
home               where this proxy runs, as its key in etcd says
base_server        what both have in common: all that clients and operators see
admin              four-letter words, HTTP commands, metrics
config             the options: command line, environment, TOML and zoo.cfg
frontend           clients: listener, handshake, connection, order of requests and replies, life of sessions;
                   `order` decides, `connection` does what the order has ready
log                requests into entries, entries into etcd, the watch stream into the machine; snapshots
state              the state machine. Pure
etcd               the client of etcd, and the embedded etcd
traces             spans of requests for OpenTelemetry
zoo_cfg            ZooKeeper's zoo.cfg as options
sasl               users and Kerberos: how clients prove who they are
options            how options are declared, and those that several programs have
support            tasks, histograms, counters, throttled log lines
version            the release that this is

Above all of them, `serve` is the program; it also starts `console`, the page for operators on the admin port.

`codec`, `schema` and `proxy.state` are pure: no I/O, no clock, no randomness. So are single modules of other
packages, which pyproject.toml names (contract "pure").
"""
