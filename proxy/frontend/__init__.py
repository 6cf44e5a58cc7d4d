"""One client's side of the proxy, from the socket to the log and back.

A client's bytes take this way: `listener` accepts it and makes a `Connection`. That gets the session from
`handshake`, cuts the bytes into packets, and passes these to its `Order`. The order answers reads from the
state, and returns the writes, which the connection submits to the log's outbox. When the log has applied a
write, it calls the connection, which asks the order for the reply. Everything leaves by the connection's
transport.

What a reader looks for, and in which order to read. Each file begins with its own rules.

The connection
  connection      transport, session, requests, replies, the end: everything that happens to one client
  transport       its bytes: cut into packets when they come in, sent when they go out
  opening         the connect request, or a four-letter word in its place
  identity        who the client is: its address, its certificate, auth packets, SASL
  services        what the connections of a server share
  turns           whose requests are handled when, so that no client waits for another one for long

Its requests
  order           which request is answered when, and which writes go to the log when (pure)
  requests        the requests that wait, and their queue (pure)
  replies         the form of packets, and how much the client has not read (pure)
  observer        what is recorded of each answered request: times, logs, traces (pure)
  request_logs    the log of slow requests, and when a line is due in the audit log
  audit           the lines of the audit log (pure)
  traced          the spans of traced requests

Its session
  sessions        when sessions begin, continue and end (pure)
  handshake       from a connect request to a session, and the timer of all sessions
  read_only       sessions while etcd is out of reach

Where clients come from
  listener        ports, and TLS by the first byte
  connections     the limits on connections, and all that are open
  proxy_protocol  the header of a load balancer (pure)
  certificates    the files for TLS, read again when they change

Rules of the whole room:

1. What is pure does no I/O and reads no clock: pyproject.toml lists these modules, and the linter checks it.
2. One connection is never handled twice at a time. All of it runs in the event loop; only SASL and the files
   for TLS use threads.
3. Nothing blocks the loop: long work is done in slices (`turns`), and what a client has not read is limited.
"""
