"""What is said of a library that is not installed, by how zketcd was."""

import sys
from pathlib import Path

import pytest

from proxy.support import libraries


def test_a_checkout_has_a_target_of_make() -> None:
    assert libraries.how_to_add("gssapi") == "`make setup-gssapi` installs it"


def test_the_debian_package_has_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", "/opt/zketcd")
    monkeypatch.setattr(libraries, "_LOCKS", f"{tmp_path}/{{}}.txt")
    (tmp_path / "grpcio.txt").touch()
    said = libraries.how_to_add("grpcio")
    assert said.startswith("`python3 -m pip --python /opt/zketcd/bin/python3 install ")
    assert said.endswith(f" -r {tmp_path}/grpcio.txt` installs it")


def test_an_image_is_built_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", "/opt/zketcd")
    monkeypatch.setattr(libraries, "_LOCKS", f"{tmp_path}/{{}}.txt")
    monkeypatch.setattr(libraries, "_ROOT", tmp_path)
    assert libraries.how_to_add("otel") == (
        'an image that is built with `--build-arg LOCKS="runtime otel"` has it'
    )
    assert libraries.how_to_add("gssapi") == "docs/install.md says how to install it"


def test_elsewhere_the_page_tells(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(libraries, "_ROOT", tmp_path)
    assert libraries.how_to_add("pipeline-small") == "docs/install.md says how to install it"
