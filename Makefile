# Everything a user or contributor does; `make help` lists it. Each target does its own set-up.

.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= python3
export PYTHON
# Tests start Python a thousand times: each process would compile all modules again, half a second of CPU time.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv/bin
PIP := $(VENV)/python -m pip install --quiet --disable-pip-version-check --no-input --use-pep517 --require-hashes
STAMPS := .venv/.stamps
# That tests change between; see requirements/debs.txt.
ETCD_VERSIONS := 3.4.23 3.5.16 3.5.30
SOURCES := $(sort $(patsubst %/,%,$(dir $(wildcard */*.py))))

# Arguments for the program behind a target: make run ARGS="--listen :2181", make test ARGS="-k watches"
ARGS ?=

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Set-up. Stamps are newer than the locks that they stand for, so that a second run does nothing.

$(STAMPS)/created:
	tools/create_venv.sh
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/runtime: requirements/runtime.txt $(STAMPS)/created
	@echo "installing the locked dependencies into .venv"
	@$(PIP) -r requirements/runtime.txt
	@touch $@

$(STAMPS)/pipeline: requirements/pipeline.txt $(STAMPS)/pipeline-small
	@echo "installing Spark and what the data pipeline needs into .venv (pyspark alone is 450 MB)"
	@$(PIP) -r requirements/pipeline.txt
	@touch $@

$(STAMPS)/pipeline-small: requirements/pipeline-small.txt $(STAMPS)/runtime
	@echo "installing what the data pipeline needs for small trees into .venv"
	@$(PIP) -r requirements/pipeline-small.txt
	@touch $@

$(STAMPS)/grpcio: requirements/grpcio.txt $(STAMPS)/runtime
	@echo "installing grpcio into .venv"
	@$(PIP) -r requirements/grpcio.txt
	@touch $@

$(STAMPS)/otel: requirements/otel.txt $(STAMPS)/runtime
	@echo "installing the OpenTelemetry SDK into .venv"
	@$(PIP) -r requirements/otel.txt
	@touch $@

$(STAMPS)/archive: requirements/archive.txt $(STAMPS)/runtime
	@echo "installing obstore into .venv"
	@$(PIP) -r requirements/archive.txt
	@touch $@

$(STAMPS)/gssapi: requirements/gssapi.txt $(STAMPS)/runtime
	@tools/install_system_packages.sh kerberos-build
	@echo "compiling python-gssapi into .venv"
	@$(PIP) -r requirements/gssapi.txt
	@touch $@

$(STAMPS)/gssapi-tests: requirements/gssapi-tests.txt $(STAMPS)/gssapi $(STAMPS)/dev
	@echo "compiling what the tests of Kerberos need into .venv"
	@$(PIP) -r requirements/gssapi-tests.txt
	@touch $@

$(STAMPS)/dev: requirements/dev.txt $(STAMPS)/pipeline $(STAMPS)/grpcio $(STAMPS)/otel $(STAMPS)/archive
	@echo "installing the locked development dependencies into .venv (about 1 GB with the above and a ClickHouse)"
	@$(PIP) -r requirements/dev.txt
	@touch $@

.cache/kazoo.stamp: requirements/kazoo-source.txt tools/fetch_kazoo_source.sh $(STAMPS)/runtime
	@echo "fetching kazoo's test suite"
	@mkdir -p .cache && tools/fetch_kazoo_source.sh
	@touch $@

.cache/helm.stamp: requirements/helm-source.txt tools/fetch_helm.sh $(STAMPS)/created
	@echo "fetching helm (38 MB)"
	@tools/fetch_helm.sh
	@touch $@

.PHONY: setup setup-grpcio setup-otel setup-archive setup-gssapi setup-pipeline setup-pipeline-small setup-dev setup-test
setup: $(STAMPS)/runtime ## Install what `make run` needs: .venv, locked dependencies, an etcd
	@$(VENV)/python -m tools.setup_etcd

setup-grpcio: $(STAMPS)/grpcio ## Install what `--etcd-transport grpcio` needs: grpcio

setup-otel: $(STAMPS)/otel ## Install what `--traces on` needs: the OpenTelemetry SDK
setup-archive: $(STAMPS)/archive ## Install what `zketcd archive s3://...` needs: obstore

setup-gssapi: $(STAMPS)/gssapi ## Install what `--sasl-keytab` needs: python-gssapi, compiled with Debian's libkrb5-dev

setup-pipeline-small: $(STAMPS)/pipeline-small ## Install what the pipeline needs for up to 10 million znodes: no Spark, no Java

setup-pipeline: $(STAMPS)/pipeline ## Install what the pipeline needs for trees of any size: Spark and Java
	@tools/install_system_packages.sh java

setup-dev: $(STAMPS)/dev ## Install what linters and unit tests need as well

setup-test: setup setup-dev .cache/kazoo.stamp .cache/helm.stamp ## Install what all tests need as well: etcdctl, etcd in three versions, Java, ClickHouse, the C client, Chromium, faketime, HAProxy, helm, promtool, Kerberos, kazoo's suite
	@tools/install_system_packages.sh etcdctl java jattach c-client chromium haproxy mandoc kdc kerberos-build faketime promtool
	@if command -v krb5-config >/dev/null && command -v gcc >/dev/null; then $(MAKE) --no-print-directory $(STAMPS)/gssapi-tests; \
	else echo "skipped: compiling what the tests of Kerberos need" >&2; fi
	@$(VENV)/python tools/fetch_debs.py zookeeper-3.9.6 || echo "tests compare with ZooKeeper 3.9.5 instead" >&2
	@$(VENV)/python tools/fetch_debs.py zookeeper-3.8.0 || echo "tests of ZooKeeper 3.8's files are left out" >&2
	@# The tests that need a package say so again.
	@for name in $(ETCD_VERSIONS:%=etcd-%) clickhouse-18.16; do $(VENV)/python tools/fetch_debs.py $$name || true; done

# Use

.PHONY: run
run: setup ## Serve ZooKeeper clients on 127.0.0.1:2181 with an embedded etcd, which keeps its data in ./data
	@exec $(VENV)/python -m serve --data-dir data $(ARGS)

.PHONY: pyfiles
pyfiles: ## Write build/pyfiles.zip, our modules for spark-submit --py-files
	@$(PYTHON) tools/make_pyfiles.py build/pyfiles.zip && echo build/pyfiles.zip

.PHONY: package
package: setup-dev ## Build the Debian package, the single-file archive and their bill of materials in build/packages
	@$(VENV)/python tools/make_packages.py build/packages $(ARGS)

.PHONY: manifests
manifests: .cache/helm.stamp ## Write the Helm chart's plain manifests to build/kubernetes
	@$(VENV)/python tools/make_manifests.py build/kubernetes && echo build/kubernetes

.PHONY: bench
bench: setup-test ## Measure zketcd, real ZooKeeper and raw etcd transactions
	@exec $(VENV)/python -m bench $(ARGS)

.PHONY: scenarios
scenarios: setup-test ## Measure the long scenarios: many proxies, a million znodes, a distant etcd, ClickHouse
	@exec $(VENV)/python -m bench.scenarios $(ARGS)

.PHONY: reference
reference: setup-test ## Measure everything in bench/results/README.md and README.md, and write it there (takes long)
	@# An invalid round, or a scenario that could not be run, stands at its place: the rest is worth having.
	@status=0; \
	$(VENV)/python -m bench --quick --rounds 3 --seconds 0.5 --json bench/results/reference.json || status=1; \
	$(VENV)/python -m bench.scenarios --json bench/results/scenarios.json || status=1; \
	$(VENV)/python -m bench.documents && exit $$status

.PHONY: stages
stages: setup-dev ## Measure the proxy alone: CPU time or function calls by stage of a request, and requests to etcd
	@$(VENV)/python -m bench.stages $(ARGS)

.PHONY: simulate
simulate: setup-dev ## Simulate the whole system on seeds, under faults; ARGS=--planted finds the planted faults
	@exec $(VENV)/python -m proof.simulation $(ARGS)

.PHONY: storms
storms: setup-dev ## Simulate 200 stormy hours on two cores; a second run of the same commit continues the first; ARGS="--hours 8"
	@mkdir -p build
	@exec $(VENV)/python -m proof.simulation --worlds stormy --hours 200 --processes 2 \
		--record build/storms-$$(git describe --always --dirty).jsonl $(ARGS)

.PHONY: hours
hours: setup-test ## Load three proxies on one etcd for 100 minutes, amid upgrades and kills: does anything grow? The next run goes on; ARGS="--minutes 20"
	@exec $(VENV)/python -m bench.hours $(ARGS)

.PHONY: fuzz
fuzz: setup-dev ## Fuzz what takes bytes from clients, etcd and ZooKeeper's files, until it is stopped or finds something
	@exec $(VENV)/python -m proof.fuzzing $(ARGS)

.PHONY: torture
torture: setup-test ## Run real etcd, proxies and clients under faults, and judge what clients saw; ARGS="--minutes 60 --seed 7"
	@exec $(VENV)/python -m proof.torture $(ARGS)

.PHONY: upgrades
upgrades: setup-test ## Upgrade the proxies of two inserting ClickHouse servers 20 times: no session ends, no insert fails
	@ZKETCD_TEST_UPGRADES=20 $(VENV)/python -m pytest -q tests/clients/test_clickhouse.py -k upgrades --timeout 1200 $(ARGS)

# Checks

PYTEST := $(VENV)/python -m pytest --no-loadscope-reorder
# More than cores: most of a real test's time is waiting for a server, or for a session to expire. Seven, with their
# servers, take 7 GB; so five on a machine with less than 12.
TEST_PROCESSES ?= $(shell awk '/MemTotal/ {print (($$2 < 12e6) ? 5 : 7)}' /proc/meminfo)

.PHONY: test unit properties pythons lint format
test: setup-test ## Run all tests, those that need a server first; then, without ARGS, some on another Python, and look for gone pins
	$(PYTEST) --numprocesses $(TEST_PROCESSES) $(ARGS)
	@$(if $(ARGS),,HYPOTHESIS_PROFILE=quick tools/test_pythons.sh --quiet)
	@# This machine's .cache may have what another can no longer fetch. The tests pass with it, so this only prints.
	@$(if $(ARGS),,$(VENV)/python tools/fetch_debs.py --check || true)

unit: setup-dev ## Run the tests of the product that need no server and are quick (50 to 70 s of CPU time)
	HYPOTHESIS_PROFILE=quick $(VENV)/python tools/test_in_shares.py 2 -m "not real and not long" $(ARGS)

properties: setup-dev ## Run the property tests with forty times as many examples as `make test`
	HYPOTHESIS_PROFILE=full $(PYTEST) --numprocesses 2 --timeout 3600 -m "hypothesis and not real" $(ARGS)

pythons: setup-dev ## Run the unit tests on the other Pythons from 3.11 to 3.14 that this machine has
	@tools/test_pythons.sh --all $(ARGS)

lint: setup-dev ## Check style, types, import directions, the Dockerfile and that every file has a license
	$(VENV)/ruff check $(SOURCES)
	$(VENV)/ruff format --check $(SOURCES)
	for version in 3.11 3.12 3.13 3.14; do $(VENV)/mypy --python-version $$version $(SOURCES) || exit; done
	$(VENV)/lint-imports --no-cache
	$(VENV)/hadolint Dockerfile
	$(VENV)/reuse lint --quiet

.PHONY: test-etcd-versions
test-etcd-versions: setup-test ## Run the tests of etcd's answers, of faults and against real ZooKeeper on each version of etcd (hours)
	@for version in $(ETCD_VERSIONS); do echo "etcd $$version"; ZKETCD_TEST_ETCD=$$version $(PYTEST) --numprocesses $(TEST_PROCESSES) \
		tests/proxy/etcd tests/proxy/log tests/faults tests/compat $(ARGS) || exit; done

.PHONY: test-zookeeper-versions
test-zookeeper-versions: setup-test ## Compare zketcd with each version of ZooKeeper 3.9 that the set-up has, with 25 times as many random scripts as `make test`
	@for version in 3.9.5 3.9.6; do echo "ZooKeeper $$version"; ZKETCD_TEST_ZOOKEEPER=$$version ZKETCD_DIFF_SCRIPTS=50 $(PYTEST) \
		--numprocesses $(TEST_PROCESSES) tests/compat $(ARGS) || exit; done

.PHONY: check-debs
check-debs: $(STAMPS)/created ## Print which files of requirements/debs.txt have left the package archive (downloads them all)
	@$(VENV)/python tools/fetch_debs.py --check

format: setup-dev ## Format the sources and repair what ruff can repair
	$(VENV)/ruff format $(SOURCES)
	$(VENV)/ruff check --fix $(SOURCES)

# Generated files

.PHONY: proto lock
proto: setup-dev ## Generate proxy/etcd/rpc_pb2.py from rpc.proto
	$(VENV)/python tools/generate_rpc.py

# One lock for all versions of Python. It does not name the registry or mirror of whoever runs this.
LOCK := UV_CUSTOM_COMPILE_COMMAND="make lock" ../$(VENV)/uv pip compile --quiet --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-annotate
lock: setup-dev ## Write the lock files again from requirements/*.in (ARGS=--upgrade for newer versions)
	cd requirements && for name in runtime grpcio otel archive gssapi pipeline-small pipeline dev gssapi-tests etcd-trial; do $(LOCK) $(ARGS) --output-file=$$name.txt $$name.in || exit; done
	$(VENV)/python tools/nest_locks.py

.PHONY: clean
clean: ## Remove .venv and caches (not ./data)
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
