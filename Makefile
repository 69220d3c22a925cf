# Every target sets up what it needs. `make help` lists them from the comments after `##`.
.DEFAULT_GOAL := help
# Where it is set every test worker and every server compiles all modules anew, half a second each.
unexport PYTHONDONTWRITEBYTECODE
SUITES ?= pymysql sqlalchemy-pymysql
.PHONY: help docs docs-serve run demo suites schema-tools superset test test-long test-mysql test-mariadb-next test-vitess test-galera test-silence rolling-restart spark test-spark crash-spark ledger-topics example-spark test-packages deb man lock release check format bench profile differential fuzz simulate planted clean mariadb toolchains prometheus chromium mysql galera debian screenshots

# The first of these that is new enough; override with `make PYTHON=... run`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
# Whatever ends a run of the tests, nothing of it is left running.
PYTEST = $(BIN)/python tests/contained.py $(BIN)/python -m pytest
RUN_STAMP := $(VENV)/.installed-run
STAMP := $(VENV)/.installed
SPARK_STAMP := $(VENV)/.installed-spark
PROFILE_STAMP := $(VENV)/.installed-profile
DOCS_STAMP := $(VENV)/.installed-docs
TESTS ?= tests
JOBS ?= 4

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUN_STAMP) ## set up and serve MySQL clients on 127.0.0.1:3307 and the web console on :8307, embedded database in data/
	@echo "Starting queuegate; Ctrl-C ends it." >&2
	@$(BIN)/queuegate serve --console 127.0.0.1:8307

demo: $(RUN_STAMP) ## show produce, receive, retry, ack, schedule and a kill -9 survived; ends by itself
	@$(BIN)/python -m examples.demo

# With TESTS all of that part is run, the long tests as well.
SHORT := $(if $(filter command line,$(origin TESTS)),,-m "not long")
test: $(STAMP) mariadb toolchains prometheus chromium mysql ## the tests, on the embedded backend and a private MariaDB (TESTS=tests/contract for a part)
	$(PYTEST) -n $(JOBS) $(SHORT) $(TESTS)

test-long: $(STAMP) mariadb toolchains prometheus chromium mysql ## the tests that take longest: drivers and languages, workers as processes, the console's pages, wheels, live alerts, each page in a browser
	$(PYTEST) -n $(JOBS) -m long $(TESTS)

MYSQL_TESTS ?= tests/contract tests/engine tests/faults tests/integration
test-mysql: $(STAMP) mariadb toolchains mysql ## the suites that need a server, on MySQL 8 in place of MariaDB (MYSQL_TESTS=tests/contract)
	QUEUEGATE_TEST_SERVER=mysql $(PYTEST) -n $(JOBS) $(MYSQL_TESTS)

NEXT_TESTS ?= tests/contract
test-mariadb-next: $(STAMP) mariadb toolchains ## the contract on MariaDB 11.8, whose defaults differ (NEXT_TESTS=tests/integration)
	QUEUEGATE_TEST_SERVER=mariadb-next $(PYTEST) -n $(JOBS) $(NEXT_TESTS)

VITESS_TESTS ?= tests/contract tests/integration/test_on_vitess.py tests/integration/test_sharded_queues.py tests/faults/test_sharded_ledger.py tests/faults/test_reshard.py
test-vitess: $(STAMP) mariadb toolchains mysql ## the contract on Vitess 24, in a keyspace of one shard; Go 1.26 builds it once, in some minutes (VITESS_TESTS=...)
	QUEUEGATE_TEST_SERVER=vitess $(PYTEST) -n $(JOBS) $(VITESS_TESTS)

TIMES ?= 1
test-galera: $(STAMP) mariadb galera ## a Galera cluster of three: a ledger under kills, and the contract through two proxies (TIMES=3)
	for time in $$(seq $(TIMES)); do $(PYTEST) tests/galera || exit 1; done
	QUEUEGATE_TEST_SERVER=galera $(PYTEST) tests/contract

spark: $(SPARK_STAMP) ## what the Spark connector needs, in .venv: installs pyspark, 500 MB

SPARK_TESTS ?= tests/spark
test-spark: $(SPARK_STAMP) mariadb toolchains ## the tests that run Spark: installs pyspark, 500 MB (SPARK_TESTS=tests/spark/test_jdbc.py)
	$(PYTEST) $(SPARK_TESTS)

example-spark: $(SPARK_STAMP) ## a pipeline from SQL to Spark and back, which checks its own sums and ends by itself
	@$(BIN)/python -m examples.pipeline

test-silence: $(STAMP) mariadb ## one of two proxies frozen or cut off in each transaction of the engine, alone: root for the network
	QUEUEGATE_TEST_SILENCE=all $(PYTEST) -n $(JOBS) --dist worksteal tests/faults/test_frozen_proxies.py

ROUNDS ?= 10
rolling-restart: $(STAMP) mariadb ## two proxies restarted in turn under workers: nothing is handled by two at once (ROUNDS=30 SEED=7)
	QUEUEGATE_ROLLING_ROUNDS=$(ROUNDS) $(if $(SEED),QUEUEGATE_ROLLING_SEED=$(SEED)) $(PYTEST) tests/faults/test_rolling_restart.py

KILLS ?= 6
ledger-topics: $(STAMP) mariadb ## what readers of a topic get under SIGKILLs of proxies and of the database (KILLS=20 SEED=7)
	QUEUEGATE_LEDGER_KILLS=$(KILLS) $(if $(SEED),QUEUEGATE_LEDGER_SEED=$(SEED)) $(PYTEST) tests/faults/test_topic_ledger.py

crash-spark: $(SPARK_STAMP) mariadb toolchains ## streaming reads under SIGKILLs of the Spark driver and of the proxy (KILLS=20 SEED=7)
	QUEUEGATE_CRASH_KILLS=$(KILLS) $(if $(SEED),QUEUEGATE_CRASH_SEED=$(SEED)) $(PYTEST) tests/spark/test_crash_stream.py

test-packages: $(STAMP) debian toolchains ## the .deb, all wheels and the image's steps on a bare Debian: root and mmdebstrap, two minutes
	QUEUEGATE_TEST_PACKAGES=1 $(PYTEST) tests/packaging

deb: $(STAMP) ## the Debian package for this Python and processor, in dist/
	$(BIN)/python packaging/debian/build.py dist

man: $(STAMP) ## write the man page anew from the command line's parser
	$(BIN)/python packaging/manpage.py > packaging/man/queuegate.1

LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)
lock: $(STAMP) ## what the image, the Debian package and a release are built of, each with its hashes (UPGRADE=1: the newest)
	$(LOCK) pyproject.toml --output-file packaging/requirements.txt
	$(LOCK) pyproject.toml packaging/queuegate-worker/pyproject.toml packaging/queuegate-celery/pyproject.toml \
		--extra celery --extra completion --extra models --extra reload --constraint packaging/requirements.txt --output-file packaging/requirements-all.txt
	$(LOCK) packaging/requirements-build.in --output-file packaging/requirements-build.txt

release: $(STAMP) ## build, check and sign what a release uploads, in dist/: docs/releases.md (KEY=FILE or GPG_KEY=ID, BASE=IMAGE@sha256:...)
	$(BIN)/python packaging/release.py dist $(if $(KEY),--ssh-key $(KEY)) $(if $(GPG_KEY),--gpg-key $(GPG_KEY)) \
		$(if $(BASE),--image-base $(BASE))

check: $(STAMP) ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## format the code and mend what lint can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

suites: $(STAMP) mariadb ## drivers' own test suites, directly and through the proxy (SUITES="pymysql go-sql-driver", or all; SUITE_JOBS=3; WORKERS=2; EMBEDDED=1)
	$(BIN)/python tests/driver_suites/compare.py $(if $(SUITE_JOBS),--jobs $(SUITE_JOBS)) $(if $(WORKERS),--workers $(WORKERS)) $(if $(EMBEDDED),--embedded) $(SUITES)

schema-tools: $(STAMP) mariadb ## Flyway with a baseline and Hibernate over a mapped queue, on both backends: needs Maven
	$(BIN)/python tests/tools/schema_tools.py

superset: $(STAMP) mariadb ## Apache Superset on a queue and on the counters, on both backends: installs it in .superset/, 1 GB
	$(BIN)/python tests/tools/superset_run.py

# mkdocs-material says at each start that it is kept until May 2027; docs/testing.md has what comes after it.
docs docs-serve: export NO_MKDOCS_2_WARNING = 1
docs: $(DOCS_STAMP) ## the documentation as a site in site/, with how hard each page is to read; dead links end it
	$(BIN)/python -m mkdocs build --quiet --strict
	@$(BIN)/python packaging/site/readability.py
	@echo "Open site/index.html, or run make docs-serve."

DOCS_LISTEN ?= 127.0.0.1:8000
docs-serve: $(DOCS_STAMP) ## the same while you write, on http://127.0.0.1:8000 (DOCS_LISTEN=127.0.0.1:8001)
	$(BIN)/python -m mkdocs serve --dev-addr $(DOCS_LISTEN)

screenshots: $(STAMP) chromium ## the pictures of the web console in docs/images, from a demo that runs for a minute
	$(BIN)/python packaging/site/screenshots.py docs/images

bench: $(STAMP) mariadb ## the queue on both backends, then ordinary SQL beside HAProxy: about a quarter of an hour
	$(BIN)/python -m benchmarks

PROFILE_BACKEND ?= mariadb
PROFILE_OF ?= lone
profile: $(PROFILE_STAMP) mariadb ## where the proxy's time goes under a load, as profile.svg and two lists (PROFILE_BACKEND=embedded PROFILE_OF=lone|insert|drain|poll)
	@$(BIN)/python -m benchmarks.steps.profile --backend $(PROFILE_BACKEND) --of $(PROFILE_OF)

INPUTS ?= 1000000
fuzz: $(STAMP) mariadb ## a million mutated conversations at the packet layers, some over sockets, and random rows (INPUTS=1000 SEED=7)
	$(BIN)/python tests/fuzz/fuzz_run.py --inputs $(INPUTS) $(if $(SEED),--seed $(SEED))
	$(BIN)/python tests/fuzz/fuzz_sockets.py --inputs $$(($(INPUTS) / 100)) $(if $(SEED),--seed $(SEED))
	$(BIN)/python tests/fuzz/fuzz_rows.py --rounds $$(($(INPUTS) / 1000 + 1)) $(if $(SEED),--seed $(SEED))

QUERIES ?= 100000
differential: $(STAMP) mariadb ## generated SQL on the embedded backend and on MariaDB, compared (QUERIES=1000 SEED=7)
	$(BIN)/python tests/differential/dq_run.py --queries $(QUERIES) $(if $(SEED),--seed $(SEED))

SEEDS ?= 10000
simulate: $(STAMP) ## the engine under virtual time, faults and kills, with its claims checked (SEEDS=1000 FIRST=7 KIND=topics)
	$(BIN)/python tests/simulation/sim_run.py --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST)) $(if $(KIND),--kind $(KIND))

planted: $(STAMP) mariadb ## defects of docs/defects.md planted again: a test of their row, of those in make test, has to find each (DEFECTS="D16 P1")
	$(BIN)/python tests/planted/planted_run.py $(DEFECTS)

clean: ## remove the virtual environments and caches; data/ stays
	rm -rf $(VENV) .superset build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

mariadb:
	@tests/install_mariadb.sh

prometheus:
	@tests/install_prometheus.sh

chromium:
	@tests/install_chromium.sh

toolchains: $(STAMP)
	@tests/install_toolchains.sh $(BIN)/python

mysql galera debian:
	@tests/install_servers.sh $@

PIP_INSTALL := $(BIN)/python packaging/install.py

$(RUN_STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; install it or say make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Setting up $(VENV): about 90 MB, once, in half a minute; longer on a busy machine." >&2
	@$(PYTHON) packaging/install.py venv $(VENV) || { \
		echo "$(PYTHON) cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(PIP_INSTALL) .
	@touch $@

$(STAMP): $(RUN_STAMP)
	@echo "Adding what the tests and checks need to $(VENV): about 550 MB, once, in a minute or two." >&2
	@$(PIP_INSTALL) '.[dev]'
	@touch $@

# After a change of pyproject.toml $(STAMP) installs anew; the second install keeps what the first has made editable.
$(SPARK_STAMP): $(STAMP)
	@$(PIP_INSTALL) '.[dev,spark]'
	@touch $@

$(DOCS_STAMP): $(RUN_STAMP)
	@$(PIP_INSTALL) '.[docs]'
	@touch $@

$(PROFILE_STAMP): $(STAMP)
	@$(PIP_INSTALL) '.[dev,profile]'
	@touch $@
