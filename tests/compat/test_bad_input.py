"""Malformed input on real ZooKeeper and zketcd: same answer or same close, and no other client notices."""

import os

import pytest

from tests.compat import bad_input
from tests.compat.runner import describe, run
from tests.compat.script import Script
from tests.compat.side import Server, remove

pytestmark = pytest.mark.real

# As in test_random.py.
FIRST_SEED = int(os.environ.get("ZKETCD_DIFF_SEED", "1"))
SCRIPTS = int(os.environ.get("ZKETCD_DIFF_SCRIPTS", "2"))


def check(script: Script, oracle: Server, subject: Server) -> None:
    for server in (oracle, subject):
        remove(server, bad_input.NODE)  # a test that failed may have left it
    found = run(script, oracle, subject)
    if found is not None:
        pytest.fail(
            describe(found, script[max(0, found.place - 1) : found.place + 1], oracle, subject), pytrace=False
        )


@pytest.mark.parametrize("name", list(bad_input.SAMPLES))
def test_cut_at_every_byte(oracle: Server, subject: Server, name: str) -> None:
    check(bad_input.cut_script(name), oracle, subject)


def test_bytes_left_over(oracle: Server, subject: Server) -> None:
    check(bad_input.extended_script(), oracle, subject)


def test_unknown_opcodes(oracle: Server, subject: Server) -> None:
    check(
        bad_input.opcode_script(-2, -3, -1, 0, 10, 13, 23, 99, 108, 999, 2**31 - 1, -(2**31)), oracle, subject
    )


def test_lengths(oracle: Server, subject: Server) -> None:
    check(bad_input.length_script(), oracle, subject)


def test_biggest_frames(oracle: Server, subject: Server) -> None:
    check(bad_input.big_frames_script(), oracle, subject)


def test_multi_headers(oracle: Server, subject: Server) -> None:
    check(bad_input.multi_header_script(), oracle, subject)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + (SCRIPTS + 1) // 2))
def test_mutated_packets(oracle: Server, subject: Server, seed: int) -> None:
    check(bad_input.mutated_script(seed, 300), oracle, subject)


def test_handshakes(oracle: Server, subject: Server) -> None:
    check(bad_input.handshake_script(), oracle, subject)


def test_second_connect_request(oracle: Server, subject: Server) -> None:
    check(bad_input.second_connect_script(), oracle, subject)
