"""`python -m proof.check FILE...`: check recorded histories, JSON lines as `proof.history.lines` has them.

Several files are one history: that of clients in several processes of one machine, merged by time. Exit code
0: no promise is broken; 1: some are, a line for each; 2: a file is no history.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from proof.history import History, check
from proof.history.calls import MalformedHistory
from proof.history.checker import RULES
from proof.history.lines import from_lines
from proxy.support.stdout import guarded
from proxy.support.usage import Parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the files and return the exit code."""
    rules = "".join(f"  {name}: {promise}\n" for name, promise in RULES.items())
    parser = Parser(
        prog="python -m proof.check",
        description="Check histories of ZooKeeper's clients (JSON lines, see proof/history/lines.py).",
        epilog=f"rules:\n{rules}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="several are merged by time")
    options = parser.parse_args(arguments)
    history = History()
    try:
        for path in options.files:
            try:
                with path.open(encoding="utf-8") as lines:
                    history = history.merged(from_lines(lines))
            except (OSError, UnicodeDecodeError, MalformedHistory) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                raise MalformedHistory(f"{path}: {reason}") from None
        if not len(history):
            raise MalformedHistory(f"{', '.join(map(str, options.files))}: there are no records")
        violations = check(history)
    except MalformedHistory as error:
        print(f"proof.check: {error}", file=sys.stderr)
        return 2
    for violation in violations:
        where = ", ".join(str(place + 1) for place in violation.records)
        print(f"{violation.rule}: {violation.message}" + (f" (records {where})" if where else ""))
    print(f"{len(history)} records, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(guarded(main, "proof.check", failed=2))
