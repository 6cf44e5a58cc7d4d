"""What this proxy has answered, as counters that only grow: the page computes rates and quantiles."""

from typing import Any

from codec.constants import KeeperOpCode, OpCode
from proxy.admin.facts import Facts

_NAMES = {int(opcode): opcode.name.lower() for opcodes in (OpCode, KeeperOpCode) for opcode in opcodes}


def traffic(facts: Facts) -> dict[str, Any]:
    """Counters by operation; bucket n of a latency holds what took less than 2 ** n nanoseconds.

    Rates of budgets are a second; 0 is no limit.
    """
    subject = facts.subject
    received, sent = facts.packets()
    operations = {
        _NAMES[opcode]: {
            "update": subject.latency.updates[opcode],
            "count": histogram.count,
            "nanos": histogram.total,
            "buckets": [[place, count] for place, count in enumerate(histogram.buckets) if count],
        }
        for opcode, histogram in subject.latency.by_opcode.items()
        if histogram.count
    }
    log = subject.log_status()
    return {
        "operations": operations,
        "packetsReceived": received,
        "packetsSent": sent,
        "connections": len(subject.connections),
        "sessions": len(subject.sessions),
        "outstanding": log.outstanding,
        "watches": subject.watches.held(),
        "notifications": subject.counters.notifications,
        "entriesApplied": log.stats.applied_entries,
        "requestsApplied": log.stats.applied_requests,
        "bytesApplied": log.stats.applied_bytes,
        "budgets": [
            {**rule._asdict(), "refused": log.stats.throttled[rule.path]}
            for rule in subject.machine.budgets.rules
        ],
    }
