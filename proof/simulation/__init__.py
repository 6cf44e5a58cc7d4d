"""The whole system in one process, on one seed, in simulated time.

To read it: `world` is the clock and the event loops of all hosts, `network` what is between them, `etcd` a
cluster as its clients see it, `proxies` whole real servers, `clients` sessions that roam between them.
`simulation` puts a stormy world together, makes its faults (`nemesis`), and has it judged by `oracle`,
`answers`, `expiry` and `naive_judge`; `calm` is a world of many hours. `campaign` runs many, and `planted`
shows that they notice. What of proxy/ is replaced stands in `seams`; what proxies tell, in
proxy/support/probe.py.
"""
