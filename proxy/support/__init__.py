"""What every other part of the proxy may use: a registry of tasks, histograms, counters, a throttled log.

`latency` and `counters` are pure; time is their argument.
"""
