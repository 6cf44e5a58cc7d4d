"""Hand-written scripts for what random ones rarely meet, and for every difference ever found.

Paste a shrunk script into one of these modules with a name that says what it is about.
"""

from tests.compat import acl_cases, burst_cases, node_cases, session_cases, watch_cases
from tests.compat.script import Script

CASES: dict[str, Script] = {
    **burst_cases.CASES,
    **node_cases.CASES,
    **acl_cases.CASES,
    **session_cases.CASES,
    **watch_cases.CASES,
}
