"""`python -m proof.torture`: real servers and real faults on this machine, and a verdict.

Three members of etcd, several proxies, and relays between all of them and the clients. Faults come one after
another in an order of the seed; after each one everything has to work again. What clients saw is judged by
the history checker; the log and the trees of all proxies are compared. The seed decides which faults come
when and what clients ask for; how long things take is the machine's, so a run is not reproduced to the byte.

The exit code is 0 if no promise was broken, 1 if one was, 2 if the run was not possible. Only loopback
addresses are used, and only processes of this run are stopped.
"""

import argparse
import asyncio
import json
import logging
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from lab.arguments import number, output_folder, whole
from lab.servers import BinaryMissing, StartFailed
from proof.simulation.planted import Planted, planted, read_planted
from proof.torture import faults
from proof.torture.availability import summary, table
from proof.torture.cluster import Cluster
from proof.torture.host import abilities
from proof.torture.torture import ROUND_SECONDS, Options, Totals, torture
from proxy.support.stdout import guarded
from proxy.support.usage import Parser, output_file


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.list_faults:
        _list()
        return 0
    wanted = [name for name in given.faults.split(",") if name]
    unknown = sorted(set(wanted) - set(faults.KINDS))
    if unknown:
        parser.error(f"no such fault: {', '.join(unknown)}. --list-faults shows all")
    to_plant = {fault.name: fault for fault in read_planted()}
    if given.plant and given.plant not in to_plant:
        names = ", ".join(to_plant)
        parser.error(f"no such planted fault: {given.plant!r}. There are: {names}")
    try:
        options = Options(
            given.seed,
            given.minutes,
            _possible(wanted),
            given.proxies,
            given.clients,
            given.work_dir,
            given.keep_going,
            given.round_seconds,
            pairs=given.pairs,
        )
        totals = _run(options, to_plant.get(given.plant))
    except (BinaryMissing, StartFailed, TimeoutError, OSError) as error:
        print(f"proof.torture: cannot run: {error}", file=sys.stderr)
        return 2
    except Exception as error:  # noqa: BLE001 - whatever has broken off the run, it is no verdict
        traceback.print_exception(error)
        print("proof.torture: the run broke off, and its last round is not judged", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("proof.torture: stopped; its processes have ended", file=sys.stderr)
        return 130
    for line in [*table(summary(totals.episodes)), *totals.lines()]:
        print(line)
    print(f"{len(totals.violations)} violations, seed {options.seed}", flush=True)
    if given.json is not None:
        try:
            given.json.write_text(json.dumps(totals.as_json(options), indent=1) + "\n", encoding="utf-8")
        except OSError as error:  # a disk that is full by now
            print(f"proof.torture: no figures in {given.json}: {error.strerror}", file=sys.stderr)
    return 1 if totals.violations else 0


def _run(options: Options, fault: Planted | None) -> Totals:
    logging.getLogger("proxy").addHandler(logging.NullHandler())  # messages of the observer's stream
    with ExitStack() as stack:
        variables = {}
        if fault is not None:
            # Modules are found there, not in the working folder.
            variables = {"PYTHONPATH": str(stack.enter_context(planted(fault))), "PYTHONSAFEPATH": "1"}
        small_disks = "full-disk" in options.faults
        cluster = stack.enter_context(Cluster(options.servers, variables=variables, small_disks=small_disks))
        return asyncio.run(
            torture(cluster, options, lambda _judged, lines: print(*lines, sep="\n", flush=True))
        )


def _possible(wanted: Sequence[str]) -> list[str]:
    """The kinds to run: `wanted`, or all but those that cannot be made here. Raises BinaryMissing."""
    missing = faults.impossible(abilities())
    for name, reason in missing.items():
        if name in wanted:
            raise BinaryMissing(f"{name}: {reason}")
        if not wanted:
            print(f"not possible here: {name}: {reason}", flush=True)
    return list(wanted) or [name for name in faults.KINDS if name not in missing]


def _list() -> None:
    missing = faults.impossible(abilities())
    for name, kind in faults.KINDS.items():
        print(
            f"{name:20} {kind.what}" + (f" (not possible here: {missing[name]})" if name in missing else "")
        )


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m proof.torture",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--minutes", type=number(1e6), default=10.0, metavar="M", help="how long to go on (default: 10)")
    add("--seed", type=int, default=1, metavar="N", help="decides the faults and the requests (default: 1)")
    add("--faults", default="", metavar="A,B", help="only these kinds (default: all that are possible here)")
    add("--list-faults", action="store_true", help="print all kinds of faults")
    add("--proxies", type=whole(1, 100), default=3, metavar="N", help="number of proxies (default: 3)")
    add(
        "--clients",
        type=whole(1, 100),
        default=8,
        metavar="N",
        help="clients that write at a time (default: 8)",
    )
    add(
        "--round-seconds",
        type=number(1e6),
        default=ROUND_SECONDS,
        metavar="S",
        help=f"after so long a history is judged, and another one begun (default: {ROUND_SECONDS:.0f})",
    )
    add(
        "--pairs",
        type=number(1, zero=True),
        default=0.25,
        metavar="P",
        help="how many of the episodes have two faults at once, from 0 to 1 (default: 0.25)",
    )
    add("--keep-going", action="store_true", help="go on after a violation")
    add(
        "--work-dir",
        type=output_folder,
        default=Path("build/torture"),
        metavar="DIR",
        help="where the history and the logs of a round with a violation are kept (default: build/torture)",
    )
    add("--json", type=output_file, metavar="FILE", help="write the figures to a file as well")
    add(
        "--plant",
        default="",
        metavar="NAME",
        help="plant one of the simulation's faults in the code of all proxies: it should be found",
    )
    return parser


if __name__ == "__main__":
    # As by Ctrl-C: processes end, and what is mounted goes.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(guarded(main, "proof.torture", failed=2))
