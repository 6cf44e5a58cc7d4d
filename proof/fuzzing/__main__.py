"""`python -m proof.fuzzing`: fuzz what takes bytes from clients, from etcd, and from a ZooKeeper's disk.

The exit code is 0 if the invariant held, 1 if an input broke it, 2 for bad usage.
"""

import argparse
import itertools
import logging
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.arguments import seconds
from proof.fuzzing import corpus, engine, findings
from proof.fuzzing.engine import EngineFailed, Explorer
from proof.fuzzing.target import ENDLESS, Finding, Target, finding_of
from proof.fuzzing.targets import TARGETS
from proxy.support.stdout import guarded, has_failed
from proxy.support.usage import Parser, output_folder

# The signature of findings that come only sometimes.
NOT_REPEATED = "not repeated"
_BUILD = Path("build/fuzzing")
# Seconds of a turn in runs without an end: in the first round, twice as many in each next one, and at most.
_FIRST_S = 5.0
_LONGEST_S = 60.0


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = _parser()
    given = parser.parse_args(arguments)
    chosen = _chosen(parser, given.targets)
    if given.list:
        for target in chosen:
            print(f"{target.name:16} {target.about}")
        return 0
    if given.repeat is not None:
        return _repeat(parser, chosen, given.repeat)
    if not engine.is_installed():
        parser.error("atheris is not installed; `make setup-dev` installs it where it has a wheel (x86-64)")
    # Inputs are refused by the thousand; each would be a line in the log.
    logging.disable(logging.WARNING)
    try:
        with Explorer() as explorer:
            if given.distill:
                return _distill(chosen, explorer, given.corpus)
            return _fuzz(chosen, explorer, given)
    except KeyboardInterrupt:
        return 0
    except (OSError, EngineFailed) as error:
        if has_failed():
            raise
        print(f"proof.fuzzing: cannot go on: {error}", file=sys.stderr)
        return 2
    finally:
        logging.disable(logging.NOTSET)


def _distill(chosen: Sequence[Target], explorer: Explorer, grown: Path) -> int:
    for target in chosen:
        inputs = explorer.distill(target.name, _inputs(target, grown))
        corpus.commit(target.name, target.about, inputs)
        print(f"{target.name}: {len(inputs)} inputs, {sum(map(len, inputs))} bytes")
    return 0


def _fuzz(chosen: Sequence[Target], explorer: Explorer, given: argparse.Namespace) -> int:
    """Give each target its turn, once or for ever."""
    signatures: set[tuple[str, str]] = set()
    total, begun = 0, time.monotonic()
    for rounds in itertools.count():
        beyond = 0.0  # what the last turn took above its time: former inputs come first, and atheris starts
        for place, target in enumerate(chosen):
            began = time.monotonic()
            if given.seconds is None:
                turn_s = min(_LONGEST_S, _FIRST_S * 2**rounds)
            else:
                turn_s = max(0.0, (begun + given.seconds - began) / (len(chosen) - place) - beyond)
            total += _turn(target, given, explorer, turn_s, given.seed + rounds, signatures)
            beyond = max(0.0, time.monotonic() - began - turn_s)
        if given.seconds is not None or signatures:
            break
    print(f"{total} executions in {time.monotonic() - begun:.0f} s, {len(signatures)} findings")
    return 1 if signatures else 0


def _turn(
    target: Target,
    given: argparse.Namespace,
    explorer: Explorer,
    seconds: float,
    seed: int,
    signatures: set[tuple[str, str]],
) -> int:
    """Fuzz one target, and report it; findings with new signatures are added to them. The executions."""
    began = time.monotonic()
    explored = explorer.explore(target.name, _inputs(target, given.corpus), seed, seconds)
    found = findings_of(target, explored)
    took = time.monotonic() - began
    print(
        f"{target.name:16} {explored.executions:8} executions {explored.executions / took:7.0f}/s"
        f" {explored.edges:5} edges {len(explored.inputs):4} new inputs {len(found)} findings",
        flush=True,
    )
    broken = [data for data, _ in found.values()]
    corpus.keep(target.name, given.corpus, [data for data in explored.inputs if data not in broken])
    for signature, (data, finding) in found.items():
        if (target.name, signature) in signatures:
            continue
        signatures.add((target.name, signature))
        if signature not in (NOT_REPEATED, ENDLESS):
            data = findings.minimised(target, data, signature)
        for line in findings.write(target, data, finding, given.findings):
            print(line, flush=True)
    return explored.executions


def findings_of(target: Target, explored: engine.Explored) -> dict[str, tuple[bytes, Finding]]:
    """One input for each signature, with what it breaks: libFuzzer bounds no memory, and may err once."""
    found: dict[str, tuple[bytes, Finding]] = {}
    for data in (*explored.inputs, *explored.broken):
        finding = finding_of(target, data)
        if finding is not None:
            found.setdefault(finding.signature, (data, finding))
    if explored.broken and not found:
        # Chance is a mistake as well: of a target, if not of what it tests.
        once = Finding(f"atheris found it, once: {explored.why}", NOT_REPEATED)
        found[NOT_REPEATED] = explored.broken[0], once
    return found


def _inputs(target: Target, grown: Path) -> list[bytes]:
    """What a run begins with: the repository's corpus, and what former runs have found."""
    return list(dict.fromkeys([*corpus.committed(target.name), *corpus.grown(target.name, grown)]))


def _repeat(parser: argparse.ArgumentParser, chosen: Sequence[Target], file: Path) -> int:
    """Judge one input again, and show how it fails."""
    if len(chosen) != 1:
        parser.error("--repeat needs one target: --targets NAME")
    try:
        data = file.read_bytes()
    except OSError as error:
        parser.error(f"cannot read {file}: {error.strerror}")
    finding = finding_of(chosen[0], data)
    if finding is None:
        print(f"{chosen[0].name}: {len(data)} bytes are decoded, or refused as documented")
        return 0
    print(f"{finding.what}\n  {finding.signature}")
    return 1


def _chosen(parser: argparse.ArgumentParser, names: Iterable[str] | None) -> list[Target]:
    if names is None:
        return list(TARGETS.values())
    wanted = [name for text in names for name in text.split(",")]
    for name in wanted:
        if name not in TARGETS:
            parser.error(f"no target {name!r}; there are: {', '.join(TARGETS)}")
    return [TARGETS[name] for name in wanted]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m proof.fuzzing",
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--targets", nargs="+", metavar="NAME", help="only these targets (default: all)")
    add("--list", action="store_true", help="print the targets, and do nothing")
    add(
        "--seconds",
        type=seconds,
        metavar="N",
        help="seconds in all, divided among the targets (default: go on until a finding or Ctrl-C)",
    )
    add("--seed", type=int, default=1, metavar="N", help="of the random changes (default: 1)")
    add(
        "--corpus",
        type=output_folder,
        default=_BUILD / "corpus",
        metavar="DIR",
        help=f"inputs that reach new code are kept here (default: {_BUILD / 'corpus'})",
    )
    add(
        "--findings",
        type=output_folder,
        default=_BUILD / "findings",
        metavar="DIR",
        help=f"inputs that break the invariant are written here (default: {_BUILD / 'findings'})",
    )
    add("--repeat", type=Path, metavar="FILE", help="judge the input in FILE, of the one target given")
    add("--distill", action="store_true", help="write the best of all inputs into the repository's corpus")
    return parser


if __name__ == "__main__":
    sys.exit(guarded(main, "proof.fuzzing", failed=2))
