"""Sockets whose paths are longer than the kernel takes."""

import os
import socket
from pathlib import Path

import pytest

from proxy.etcd.unix_socket import reachable


@pytest.mark.parametrize("folder", ["short", "/".join(["long" * 10] * 5)])
def test_a_socket_is_reached_by_a_path_of_any_length(tmp_path: Path, folder: str) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True)
    descriptors = len(os.listdir("/proc/self/fd"))
    with socket.socket(socket.AF_UNIX) as listener:
        with reachable(str(place / "name")) as path:
            listener.bind(path)
        listener.listen()
        with socket.socket(socket.AF_UNIX) as client, reachable(str(place / "name")) as path:
            client.connect(path)
    assert (place / "name").is_socket()
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_folder_that_is_missing() -> None:
    with pytest.raises(FileNotFoundError), reachable("/" + "x" * 150 + "/name"):
        pass
