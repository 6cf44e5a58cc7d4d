"""`zketcd check`: what is good, doubtful or wrong with a configuration, this host and etcd.

It changes nothing.

host       options, files and ports        etcd      each member, access rights, the tree
peers      the ports between proxies
finding    one result, and the page of all
"""
