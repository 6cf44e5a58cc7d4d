"""`python -m proof.simulation`: simulate the whole system on a seed, and say what was found.

The exit code is 0 if nothing was wrong (with --planted: if each planted fault was found), 1 if something was,
or if many stormy hours never took one of the branches that matter, 2 for bad usage.
"""

import argparse
import signal
import sys
from pathlib import Path

from lab.arguments import count, number
from proof.simulation import record
from proof.simulation.campaign import (
    CALM_HOURS,
    KINDS,
    STORMY_HOURS,
    STORMY_SHARE,
    TRIES,
    find,
    lacking,
    report,
    tail,
    worlds,
)
from proof.simulation.kinds import run
from proof.simulation.outcome import Outcome
from proof.simulation.planted import read_planted
from proof.simulation.record import WorldSpec
from proxy.support.stdout import guarded
from proxy.support.usage import Parser


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.processes > 1 and (given.trace or given.planted is not None):
        parser.error("--processes is for many worlds, not for --trace and --planted")
    if given.planted is not None:
        return _planted(parser, given.planted, given.seed, given.tries)
    outcomes: list[Outcome] = []
    wrong = 0
    one = WorldSpec("stormy" if given.worlds == "mixed" else given.worlds, given.seed, given.hours)
    try:
        done = {} if given.record is None else record.read(given.record)
    except (record.BadRecord, OSError) as error:
        parser.error(str(error))
    runs = (
        [(one, run(one))]
        if given.trace
        else worlds(given.seed, given.hours, given.minutes, given.processes, given.worlds, done)
    )
    for world, outcome in runs:
        outcomes.append(outcome)
        if given.record is not None and world not in done:
            record.append(given.record, world, outcome)
        lines = outcome.trace if given.trace else []
        if outcome.violations:
            wrong += 1
            lines = tail(outcome)
        for line in lines:
            print(line)
        print(
            f"{outcome.kind} seed {outcome.seed}: {outcome.seconds:.0f} s, {outcome.operations} requests,"
            f" {len(outcome.recoveries)} recoveries, {len(outcome.violations)} violations,"
            f" trace {outcome.fingerprint}\n  {outcome.knobs}",
            flush=True,
        )
    for line in report(outcomes):
        print(line)
    never = lacking(outcomes)
    for branch in never:
        print(f"NEVER TAKEN in these worlds: {branch}")
    return 1 if wrong or never else 0


def _planted(parser: argparse.ArgumentParser, wanted: str, seed: int, tries: int) -> int:
    """Find planted faults; all, or those whose names hold `wanted`."""
    faults = read_planted()
    chosen = [fault for fault in faults if wanted in fault.name]
    if not chosen:
        names = ", ".join(fault.name for fault in faults)
        parser.error(f"no planted fault has {wanted!r} in its name: {names}")
    missed = 0
    for fault in chosen:
        _, found, control = find(fault, seed, tries)
        if found is None:
            said = f"NOT FOUND in {tries} seeds: {fault.name} ({fault.what})"
        elif control is not None:
            said = f"{fault.name}: seed {found.seed} is wrong without it as well: {control.what}"
        elif fault.tests:
            said = f"{fault.name}: found by tests: {found.what}"
        else:
            try_ = found.seed - seed + 1
            said = f"{fault.name}: found by seed {found.seed}, try {try_}: {found.what[:200]}"
        missed += found is None or control is not None
        print(said, flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} planted faults were found")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m proof.simulation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="the first world's seed; each further one adds 1 (default: 1)",
    )
    add("--hours", type=number(1e6), default=1.0, metavar="H", help="simulated hours in all (default: 1)")
    lengths = ", ".join(f"{hours:.0f}" for hours in CALM_HOURS)
    add(
        "--worlds",
        choices=KINDS,
        default=KINDS[0],
        help=f"stormy: worlds of {STORMY_HOURS} hours with faults nearly all the time. calm: worlds of"
        f" {lengths} hours in turn, with few requests and a fault now and then. mixed: {STORMY_SHARE:.0%}%"
        " of the hours are stormy. etcd-bugs: stormy worlds in which etcd has its known bugs, too."
        " defects: stormy worlds with exceptions at any line of the servers' code. standby: stormy worlds"
        " with a copy in a second etcd, to which the tree may move (default: mixed)",
    )
    add(
        "--minutes",
        type=number(1e6),
        metavar="M",
        help="go on for so long in real time, whatever --hours says",
    )
    add(
        "--processes",
        type=count,
        default=1,
        metavar="N",
        help="so many worlds at a time, each in a process of its own (default: 1)",
    )
    add(
        "--record",
        type=Path,
        metavar="FILE",
        help="add each world to this file (JSON lines), and do not simulate those that it has. A file of"
        " other code is refused",
    )
    add(
        "--trace",
        action="store_true",
        help="one world of --hours, stormy unless --worlds says otherwise, and the end of its trace",
    )
    add(
        "--planted",
        nargs="?",
        const="",
        metavar="NAME",
        help="find the planted faults: all, or those with NAME in their names",
    )
    add(
        "--tries",
        type=count,
        default=TRIES,
        metavar="N",
        help=f"seeds for each planted fault (default: {TRIES})",
    )
    return parser


if __name__ == "__main__":
    # As by Ctrl-C: the processes of --processes end too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(guarded(main, "proof.simulation", failed=2))
