"""One client's side of the proxy, from the socket to the log and back.

A client's bytes take this way: `listener` accepts it and makes a `Connection`. That gets the session from
`handshake`, cuts the bytes into packets, and passes these to its `Order`. The order answers reads from the
state, and returns the writes, which the connection submits to the log's outbox. When the log has applied a
write, it calls the connection, which asks the order for the reply. Everything leaves by the connection's
transport.

In which order to read (each file begins with its own rules): the connection,

connection      transport, session, requests, replies, the end: everything that happens to one client; and
                what all connections of a server share
life            the states of a connection, and what leads from one to the next (pure)
transport       its bytes: cut into packets when they come in, sent when they go out
opening         the connect request, or a four-letter word in its place
client_info     what is known of a client (pure)
identity        who the client is: its address, its certificate, auth packets, SASL
turns           whose requests are handled when, so that no client waits for another one for long
slow_reads      reads that take long, in slices

its requests,

order           which request is answered when, and which writes go to the log when (pure)
requests        the requests that wait, and their queue (pure)
authentication  what the identities that a client has proved mean for its requests (pure)
replies         the form of packets, and how much the client has not read (pure)
observer        what is recorded of each answered request: times, logs, traces (pure)
request_logs    the log of slow requests, and when a line is due in the audit log (pure)
audit           the lines of the audit log (pure)
traced          the spans of traced requests (pure)
sampling        which paths, sessions and clients are busiest (pure)

its session,

sessions        when sessions begin, continue and end (pure)
orphans         those whose proxy died (pure)
due             which of very many may be due (pure)
handshake       from a connect request to a session
session_timer   calls periodically what ends sessions and closes connections
read_only       sessions while etcd is out of reach

and where clients come from:

listener        ports, and TLS by the first byte
admission       how many clients may be connected
limits          how much may wait of one client, and of all (pure)
proxy_protocol  the header of a load balancer (pure)
certificates    the files for TLS, read again when they change
certificate_ends  when certificates end, and warnings before

Three counts say what a client has not taken: `Replies.owed` are bytes of large replies, as far as is known;
`Outbound.unsent` are those that the socket has not taken, and `unread` those that are kept in all.

Rules of the whole package:

1. What is pure does no I/O except that it logs, and reads no clock: pyproject.toml lists these modules, and
   the linter checks it.
2. One connection is never handled twice at a time. All of it runs in the event loop; only SASL and the files
   for TLS use threads.
3. Nothing blocks the loop: long work is done in slices (`slow_reads`), and what a client has not read is
   limited.
"""
