"""The archiver: it follows the log without writing to etcd, and writes what an archive keeps.

archiver   follows and archives; it begins where the archive ends
writer     what one run writes                stats      what it reports
retention  deletes what is too old            child      the archiver as a child of a proxy
"""
