#!/usr/bin/env bash
# Run unit tests on the other Pythons that zketcd runs on, each in an environment of its own below .cache.
#
#   tools/test_pythons.sh          a quick part, on those of Debian 12 and 13; `make test` runs it
#   tools/test_pythons.sh --all    all unit tests, on 3.11 to 3.14; `make pythons` runs it
#
# "Other" than .venv's, which `make unit` and `make test` use. A Python is looked for on PATH and in pyenv. One line
# says which were used, and which this machine does not have.
set -euo pipefail

versions="3.11 3.13" tests=(tests/codec tests/schema tests/proxy/state tests/pipeline/traffic)
if [ "${1:-}" = --all ]; then
    shift
    versions="3.11 3.12 3.13 3.14" tests=(tests)
fi
own=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')

find_python() {
    local candidate
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if "$candidate" -c '' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

for version in $versions; do
    [ "$version" != "$own" ] || continue
    python=$(find_python "$version")
    if [ -z "$python" ]; then
        echo "skipped: unit tests on Python $version: it is neither on PATH nor in pyenv"
        continue
    fi
    home=.cache/python-$version
    if [ ! -e "$home/installed" ] || [ -n "$(find requirements -newer "$home/installed")" ]; then
        echo "installing the locked development dependencies into $home"
        PYTHON=$python tools/create_venv.sh "$home"
        "$home/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --use-pep517 --require-hashes \
            -r requirements/dev.txt
        touch "$home/installed"
    fi
    echo "unit tests on $("$home/bin/python" --version): ${tests[*]}"
    "$home/bin/python" tools/test_in_shares.py 2 -m "not real and not long" "$@" "${tests[@]}"
done
