# Every target sets up what it needs. `make help` lists them from the comments after `##`.
.DEFAULT_GOAL := help
SUITES ?= pymysql sqlalchemy-pymysql
.PHONY: help run demo suites test test-spark crash-spark example-spark check format bench fuzz simulate clean mariadb toolchains

# The first of these that is new enough; override with `make PYTHON=... run`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SPARK_STAMP := $(VENV)/.installed-spark
TESTS ?= tests
JOBS ?= 3

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(STAMP) ## set up and serve MySQL clients on 127.0.0.1:3307, embedded database in data/
	@$(BIN)/queuegate serve

demo: $(STAMP) ## show produce, receive, retry, ack, schedule and a kill -9 survived; ends by itself
	@$(BIN)/python -m examples.demo

test: $(STAMP) mariadb toolchains ## all tests, a private MariaDB included (TESTS=tests/contract for a part)
	$(BIN)/python -m pytest -n $(JOBS) $(TESTS)

SPARK_TESTS ?= tests/spark
test-spark: $(SPARK_STAMP) mariadb toolchains ## the tests that run Spark: installs pyspark, 500 MB (SPARK_TESTS=tests/spark/test_jdbc.py)
	$(BIN)/python -m pytest $(SPARK_TESTS)

example-spark: $(SPARK_STAMP) ## a pipeline from SQL to Spark and back, which checks its own sums and ends by itself
	@$(BIN)/python -m examples.pipeline

KILLS ?= 6
crash-spark: $(SPARK_STAMP) mariadb toolchains ## streaming reads under SIGKILLs of the Spark driver and of the proxy (KILLS=20 SEED=7)
	QUEUEGATE_CRASH_KILLS=$(KILLS) $(if $(SEED),QUEUEGATE_CRASH_SEED=$(SEED)) $(BIN)/python -m pytest tests/spark/test_crash_stream.py

check: $(STAMP) ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## format the code and mend what lint can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

suites: $(STAMP) mariadb ## drivers' own test suites, directly and through the proxy (SUITES="pymysql go-sql-driver", or all)
	$(BIN)/python tests/driver_suites/compare.py $(SUITES)

bench: $(STAMP) mariadb ## the queue on both backends, then ordinary SQL beside HAProxy: about eight minutes
	$(BIN)/python -m benchmarks

INPUTS ?= 1000000
fuzz: $(STAMP) mariadb ## a million mutated conversations at the packet layers, some over sockets (INPUTS=1000 SEED=7)
	$(BIN)/python tests/fuzz/fuzz_run.py --inputs $(INPUTS) $(if $(SEED),--seed $(SEED))
	$(BIN)/python tests/fuzz/fuzz_sockets.py --inputs $$(($(INPUTS) / 100)) $(if $(SEED),--seed $(SEED))

SEEDS ?= 10000
simulate: $(STAMP) ## the engine under virtual time, faults and kills, with its claims checked (SEEDS=1000 FIRST=7)
	$(BIN)/python tests/simulation/sim_run.py --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST))

clean: ## remove the virtual environment and caches; data/ stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

mariadb:
	@tests/install_mariadb.sh

toolchains:
	@tests/install_toolchains.sh

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; install it or say make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
		echo "$(PYTHON) cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(SPARK_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark]'
	@touch $@
