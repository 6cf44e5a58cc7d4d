"""SASL as ZooKeeper's server speaks it: the mechanisms, and what a server is configured with.

`exchange` says what a mechanism is. `digest_md5` and `gssapi_server` are the two that ZooKeeper has.
`principal` makes a name of an ACL out of an authenticated one. `users` and `jaas` read names and passwords,
`options` declares the options, `login` puts it together. What happens on a connection is in
`proxy.frontend.identity`.
"""
