"""`zketcd upgrade`: a new process of this or another release takes over from the running one.

The old process starts the new one, which loads the tree, follows the log and registers under its own name.
They talk by a socket pair, which the new one inherits:

    new: hello       its form, release and incarnation, `Server.must_match` and `Server.users`
    old: restart     its form is another one: the old process drains and ends; nothing else follows
    old: sockets     those of some clients, and what their connections consist of; it serves them still
    new: adopted     it has made these connections, which read nothing yet
    old: watches     those of all clients, in parts; later what has changed; these three as often as needed
    old: frozen      it has stopped reading, and all requests that it took are answered
    new: carried     its request to carry the sessions over is applied; it applies nothing after this place
    old: sockets     those of clients that have come since; new: adopted
    old: watches     what has changed since, as of the same place of the log, in parts
    old: clients     which connections move, and those that have changed; as often as needed
    old: listeners   the listening sockets
    new: taken       it has everything
    old: go          from here on the old process serves no client
    new: serving     the old process tells systemd, and ends

Up to `taken` the old process can continue as before: it kills the new one, waits until the log
shows that no entry of it can follow, carries the sessions back, and reads from its clients again.

So only connections without a request that waits move, with the bytes that were not handled, and their watches
as of one place of the log: the old process sends the events before it, the new one those after it.

In which order to read:

main        the command `zketcd upgrade`: it asks a running process
names       the name of the socket by which it does
control     takes such requests, from the socket and from signals
upgrade     in the process that serves: when it hands over
sender      the old process's part of the messages above
receiver    the new process's part
moved       what is sent of a connection
channel     the messages, and the sockets with them
supervisor  what the first process becomes where nothing may see it end
"""
