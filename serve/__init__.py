"""`zketcd serve` and `zketcd check`: the server, put together with what lies above `proxy`.

`__main__` starts it, with an etcd of its own if none is given. `admin_port` adds the console to the admin
port. `archiving` runs the archiver. `check` looks at a configuration, this host and etcd without a server.
"""
