"""What is grpcio's alone; all that it shares with our own channel is in test_channel and test_client."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from lab.servers import EtcdServer, free_port
from lab.servers.process import REPOSITORY
from proxy.etcd.client import EtcdClient
from proxy.etcd.grpc_channel import GrpcChannel
from proxy.etcd.model import EtcdUnknown, Get
from proxy.etcd.tls import Tls
from proxy.etcd.transport import RpcError


def test_an_address_of_ipv6_is_in_brackets() -> None:
    assert GrpcChannel("::1", 2379).address == "[::1]:2379"


@pytest.fixture
def tls_without_its_file(tmp_path: Path) -> Tls:
    """Files that were there when they were named."""
    file = tmp_path / "ca.pem"
    file.write_bytes(Tls().pem().authorities)
    tls = Tls(str(file))
    file.unlink()
    return tls


async def test_certificate_files_that_are_gone_are_an_unknown_outcome(tls_without_its_file: Tls) -> None:
    tls = tls_without_its_file
    client = EtcdClient([f"https://127.0.0.1:{free_port()}"], tls=tls, transport="grpcio")
    with pytest.raises(EtcdUnknown, match=r"ca\.pem"):
        await client.range(Get(b"k"), 5.0)
    await client.close()


async def test_a_channel_that_never_was_can_be_closed() -> None:
    channel = GrpcChannel("127.0.0.1", 1)
    await channel.close()
    with pytest.raises(RpcError, match="closed"):
        await channel.stream("/any")


def test_the_authorities_of_the_system_are_trusted_without_a_file() -> None:
    assert Tls().pem().authorities.count(b"BEGIN CERTIFICATE") > 50
    assert Tls().pem()[1:] == (None, None)


@pytest.mark.real
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_process_ends_by_itself(etcd_server: EtcdServer, loop: str) -> None:
    """grpcio's thread is kept to the end, and must not keep the process."""
    code = (
        f"import {loop} as loop\n"
        "from proxy.etcd.client import EtcdClient\n"
        "from proxy.etcd.model import Get\n"
        "async def main():\n"
        f"    client = EtcdClient(['{etcd_server.endpoint}'], transport='grpcio')\n"
        "    print((await client.range(Get(b'k'), 5.0)).more)\n"
        "    await client.close()\n"
        "loop.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("False\n", "", 0)


async def test_closing_blocks_nothing(etcd_server: EtcdServer) -> None:
    """The loop still runs while a channel that was used is closed and collected."""
    client = EtcdClient([etcd_server.endpoint], transport="grpcio")
    await client.range(Get(b"k"), 5.0)
    loop = asyncio.get_running_loop()
    before = loop.time()
    await client.close()
    del client
    await asyncio.sleep(0)
    assert loop.time() - before < 5.0
