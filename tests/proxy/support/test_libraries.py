"""What is said of a library that is not installed, by how zketcd was."""

import sys
from pathlib import Path

from proxy.support.libraries import Places, how_to_add


def test_a_checkout_has_a_target_of_make() -> None:
    assert how_to_add("gssapi") == "`make setup-gssapi` installs it"


def test_the_debian_package_has_pip(tmp_path: Path) -> None:
    (tmp_path / "grpcio.txt").touch()
    said = how_to_add("grpcio", Places(sys.prefix, locks=tmp_path))
    assert said.startswith(f"`python3 -m pip --python {sys.prefix}/bin/python3 install ")
    assert said.endswith(f" -r {tmp_path}/grpcio.txt` installs it")


def test_an_image_is_built_with_it(tmp_path: Path) -> None:
    image = Places(sys.prefix, locks=tmp_path, checkout=tmp_path)
    assert (
        how_to_add("otel", image) == 'an image that is built with `--build-arg LOCKS="runtime otel"` has it'
    )
    assert how_to_add("gssapi", image) == "docs/install.md says how to install it"


def test_elsewhere_the_page_tells(tmp_path: Path) -> None:
    assert how_to_add("pipeline-small", Places(checkout=tmp_path)) == "docs/install.md says how to install it"
