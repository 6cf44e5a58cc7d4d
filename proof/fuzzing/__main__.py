"""`python -m proof.fuzzing`: fuzz what takes bytes from clients, from etcd, and from a ZooKeeper's disk.

The exit code is 0 if the invariant held, 1 if an input broke it, 2 for bad usage.
"""

import argparse
import itertools
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.arguments import output_folder, seconds
from proof.fuzzing import corpus, libfuzzer
from proof.fuzzing.target import SLOW, Finding, Target, finding_of
from proof.fuzzing.targets import TARGETS
from proxy.support.stdout import guarded
from proxy.support.usage import Parser

_BUILD = Path("build/fuzzing")
_SHOWN = 20  # lines that libFuzzer has said last


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
    if not libfuzzer.is_installed() and not all(target.search for target in chosen):
        parser.error("atheris is not installed; `make setup-dev` installs it where it has a wheel (x86-64)")
    if given.distill:
        for target in (each for each in chosen if each.search is None):
            inputs = distilled(target, given.build / "corpus" / target.name)
            corpus.commit(target.name, target.about, inputs)
            print(f"{target.name}: {len(inputs)} inputs, {sum(map(len, inputs))} bytes")
        return 0
    for seed in itertools.count(given.seed):
        found = [line for target in chosen for line in fuzz(target, given.build, given.seconds, seed)]
        if found or given.once:
            return 1 if found else 0
    raise AssertionError("the seeds have come to an end")


def fuzz(target: Target, build: Path, seconds_each: float, seed: int) -> list[str]:
    """Fuzz one target, and tell of it; returns what broke the invariant, for people.

    Inputs that reach new code are kept in `build`/corpus, and begin the next run; those that break the
    invariant are in `build`/findings.
    """
    if target.search is not None:
        tries, found = target.search(seconds_each, seed)
        print(f"{target.name:16} {tries:8} executions", flush=True)
        return _told(target, found)
    kept, findings = build / "corpus" / target.name, build / "findings"
    kept.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    before = set(kept.iterdir())
    with tempfile.TemporaryDirectory(prefix="zketcd-fuzzing-") as folder:
        run = libfuzzer.run(
            target.name,
            [
                f"-max_total_time={max(1, round(seconds_each))}",
                f"-timeout={SLOW}",
                f"-seed={seed % 2**31 or 1}",  # 0 would be chance
                f"-artifact_prefix={findings}/{target.name}-",
                "-print_final_stats=1",
                kept,
                corpus.write(target.name, Path(folder)),
            ],
        )
    new = set(kept.iterdir()) - before
    print(f"{target.name:16} {run.executions:8} executions, {len(new)} new inputs", flush=True)
    found = [] if not run.code else run.said.splitlines()[-_SHOWN:]
    # libFuzzer bounds no memory of a target.
    for file in new:
        finding = finding_of(target, file.read_bytes())
        if finding is not None:
            file = file.rename(findings / f"{target.name}-{file.name}")
            found += [finding.what, f"python -m proof.fuzzing --targets {target.name} --repeat {file}"]
    return _told(target, found)


def _told(target: Target, found: list[str]) -> list[str]:
    for line in found:
        print(f"FINDING in {target.name}: {line}", flush=True)
    return found


def distilled(target: Target, grown: Path) -> list[bytes]:
    """Of the repository's inputs and those of long runs: those that together reach what all reach."""
    with tempfile.TemporaryDirectory(prefix="zketcd-fuzzing-") as folder:
        given, best = corpus.write(target.name, Path(folder)), Path(folder, "best")
        best.mkdir()
        grown.mkdir(parents=True, exist_ok=True)
        run = libfuzzer.run(target.name, ["-merge=1", best, given, grown])
        if run.code:
            raise RuntimeError(f"libFuzzer ended with {run.code}: {run.said[-1000:]}")
        inputs = sorted((file.read_bytes() for file in best.iterdir()), key=len)
        return inputs[: corpus.MOST_COMMITTED]


def _repeat(parser: argparse.ArgumentParser, chosen: Sequence[Target], file: Path) -> int:
    """Judge one input again, and show how it fails."""
    if len(chosen) != 1:
        parser.error("--repeat needs one target: --targets NAME")
    try:
        data = file.read_bytes()
    except OSError as error:
        parser.error(f"cannot read {file}: {error.strerror}")
    finding: Finding | None = finding_of(chosen[0], data)
    if finding is None:
        print(f"{chosen[0].name}: {len(data)} bytes are decoded, or refused as documented")
        return 0
    print(f"{finding.what}\n  {finding.place}")
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
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--targets", nargs="+", metavar="NAME", help="only these targets (default: all)")
    add("--list", action="store_true", help="print the targets, and do nothing")
    add("--seconds", type=seconds, default=60.0, metavar="N", help="of a target's turn (default: 60)")
    add("--once", action="store_true", help="one turn for each target (default: until a finding or Ctrl-C)")
    add("--seed", type=int, default=1, metavar="N", help="of the first turns, then N+1 (default: 1)")
    add(
        "--build",
        type=output_folder,
        default=_BUILD,
        metavar="DIR",
        help="DIR/corpus keeps inputs that reach new code, DIR/findings those that break the invariant"
        f" (default: {_BUILD})",
    )
    add("--repeat", type=Path, metavar="FILE", help="judge the input in FILE, of the one target given")
    add("--distill", action="store_true", help="write the best of all inputs into the repository's corpus")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(guarded(main, "proof.fuzzing", failed=2))
    except KeyboardInterrupt:
        sys.exit(0)
