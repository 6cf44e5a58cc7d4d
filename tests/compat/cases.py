"""Hand-written scripts for what random ones rarely meet, and for every difference ever found.

Paste a shrunk script into one of these modules with a name that says what it is about.
"""

from tests.compat import burst_cases, multi_cases, node_cases, permission_cases, session_cases
from tests.compat.script import Script

CASES: dict[str, Script] = {
    **multi_cases.CASES,
    **node_cases.CASES,
    **permission_cases.CASES,
    **session_cases.CASES,
    **burst_cases.CASES,
}
