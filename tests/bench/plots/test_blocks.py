"""The Markdown that the documents show of results."""

from bench.plots.blocks import ALT_TEXTS, blocks, summary, under
from bench.plots.results import Found, Run, Scenario
from bench.run import Cell
from bench.scenarios.__main__ import SCENARIOS
from tests.bench.plots.sample import ENVIRONMENT, MEMORY, curves, outcome, reference


def test_summary() -> None:
    # No line for what is invalid on one of the two.
    assert summary(reference()).splitlines()[2:] == [
        "| get | 1 x 1 | 100 | 200 | 2.00 | 0.67 |",
        "| get | 64 x 32 | 400 | 500 | 1.25 |  |",
        "| create | 1 x 1 | 700 | 800 | 1.14 | 0.89 |",
    ]


def test_a_write_by_itself_is_held_against_one_append() -> None:
    results = reference()
    results[Cell("append", 1, 1), "etcd"] = outcome(100.0, p50_ms=4.0)
    rows = summary(results).splitlines()
    assert "| get | 1 x 1 | 100 | 200 | 2.00 | 0.67 |" in rows
    assert "| create | 1 x 1 | 700 | 800 | 1.14 | 2.00 |" in rows


def test_under_what_a_run_was_taken() -> None:
    results = curves()
    results[Cell("get", 64, 256, 1_000), "zketcd"] = outcome(1_000, generator=0.95, others=0.4)
    results[Cell("get", 1, 32), "zketcd"].errors.append("Stalled: no reply")
    facts, limited, invalid = under(Run(ENVIRONMENT, results)).splitlines()
    assert facts == (
        '`make bench ARGS="--quick"`, 2 cores, ZooKeeper 3.9.5, Python 3.11.7, 2026-11-21, '
        "1 round of 0.5 s, other processes took at most 40% of a core."
    )
    assert limited.endswith("a possible limit: zketcd: get 64 at 1,000/s.")
    assert invalid == "Invalid: zketcd: get 1 x 32."


def test_every_mark_has_a_block_whatever_there_is() -> None:
    nothing = blocks(Found(None, None, {}), [])
    run = Run(ENVIRONMENT, reference())
    memory = Scenario({**ENVIRONMENT, "scale": 0.1}, MEMORY)
    everything = blocks(Found(run, Run(ENVIRONMENT, curves()), {"memory": memory}), list(ALT_TEXTS))
    assert list(nothing) == list(everything)
    assert set(SCENARIOS) < set(nothing)
    assert {text.partition("(Not ")[0] for name, text in nothing.items() if name != "aims"} == {""}
    assert everything["memory-figure"] == "![Memory against the number of znodes](performance/memory.svg)"
    assert "| zketcd | 10,000 | 55 | 2 |" in everything["memory"]
    assert everything["memory"].endswith(", at 0.1 of the full size.")
    assert everything["speed-table"].startswith("| workload | conn. |")
    assert everything["idle"] == nothing["idle"]
