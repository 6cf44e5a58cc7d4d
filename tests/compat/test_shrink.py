"""The shrinker finds the few steps that matter, and the generator is a function of its seed."""

from lab.oracle.requests import Create, Delete, Exists, Multi, SetData
from tests.compat.generate import Generator
from tests.compat.script import Call, Open, Script, call
from tests.compat.shrink import shrink


def test_shrinks_to_the_steps_that_matter() -> None:
    script = Generator(3).script(200)
    needed = [script[40], script[90]]

    def differs(candidate: Script) -> bool:
        return all(any(step is one for step in candidate) for one in needed)

    assert shrink(script, differs) == needed


def test_shrinks_bursts_and_multis() -> None:
    culprit = Delete("/b", 7)
    multi = Multi((Create("/a"), culprit, SetData("/a"), Create("/c")))
    script: Script = [Open(0), call(0, Exists("/a"), multi, Exists("/b")), call(0, Exists("/c"))]

    def differs(candidate: Script) -> bool:
        multis = [
            request
            for step in candidate
            if isinstance(step, Call)
            for request in step.requests
            if isinstance(request, Multi)
        ]
        return any(culprit in multi.ops for multi in multis)

    assert shrink(script, differs) == [call(0, Multi((culprit,)))]
