# Every target does its own set-up: a fresh clone needs Python 3.11+, make and git, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete
# Enough to run the server: a third of what a contributor needs.
RUNS := $(VENV)/.runs
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Tests start many interpreters: without bytecode each of them would compile the whole package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup packages up web screenshots check quick test fuzz bench docs format lock clean

help: ## Show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(STAMP) ## Create the virtual environment in .venv from the lock

# Tests that need one of these programs are skipped where it is missing.
PROGRAMS := bwrap zsh fish openssl chromium dockerd haproxy
PACKAGES := bubblewrap zsh fish openssl chromium docker.io haproxy

packages: ## Install the system packages that some tests need: bubblewrap, zsh, fish, openssl, chromium, docker.io, haproxy (as root)
	@for program in $(PROGRAMS); do command -v $$program >/dev/null || missing=yes; done; \
	if [ -z "$$missing" ]; then exit 0; \
	elif command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq $(PACKAGES); \
	elif command -v dnf >/dev/null; then dnf install -y -q $(PACKAGES); \
	else echo "install with the system's package manager: $(PACKAGES)" >&2; exit 2; fi

# Rebuilt when a lock or the project's metadata changes, so that a second run starts at once.
$(STAMP): LOCK := requirements/dev.txt
$(RUNS): LOCK := requirements/run.txt
$(STAMP): requirements/dev.txt
$(RUNS): requirements/run.txt
$(STAMP) $(RUNS): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "sokovan needs Python 3.11 or newer; try: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "could not create a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 2; }
	@$(PIP) --require-hashes -r $(LOCK)
	@$(PIP) --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

# The dashboard is built again when its sources have changed. The wheel contains it, a checkout does not.
WEB := src/sokovan/dashboard/static/manifest.json
WEB_SOURCES := $(wildcard web/*.json web/.npmrc web/index.html web/icon.svg web/src/* web/src/*/* tools/web/*.py)

$(WEB): $(WEB_SOURCES) | $(or $(wildcard $(STAMP)),$(RUNS))
	@$(BIN)/python -m tools.web

# WATCH=1 builds it again after each change, until Ctrl-C.
web: $(WEB) ## Build the dashboard, which sokovan up serves at /ui
	@$(if $(WATCH),$(BIN)/python -m tools.web --watch,:)

# OPTIONS are those of `sokovan up`, for example: make up OPTIONS="--fake 64x8"
up: $(or $(wildcard $(STAMP)),$(RUNS)) ## Start manager, agent and API on this machine, until Ctrl-C
	@$(MAKE) --no-print-directory web || echo "going on without the dashboard; make web tries again" >&2
	@$(BIN)/sokovan up $(OPTIONS)

check: setup web ## Format, lint, types, import contracts, tidy
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tools.tidy

# Two processes more than there are cores: many tests wait, and with one process a core nearly half the time is unused.
CORES := $(shell nproc 2>/dev/null || echo 2)
JOBS ?= $(shell expr $(CORES) + 2)

# One process a core: these tests do not wait, and each process collects all of them.
quick: setup ## Run the unit, scenario and property tests that are fast and need no server
	@$(BIN)/python -m pytest --quick --numprocesses $(CORES) --dist worksteal tests/unit tests/scenario tests/property

test: setup web ## Run every test
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal

screenshots: setup web ## Take pictures of every page of the dashboard, into screenshots/
	@$(BIN)/python -m tools.web.screenshots

fuzz: setup ## Let the property tests look at many more examples, other ones each time, and ten thousand sessions race
	@SOKOVAN_EXAMPLES=fuzz $(BIN)/python -m pytest tests/property tests/integration/test_allocation_race.py \
		tests/integration/test_serving_kills.py

bench: setup ## Measure how fast the core decides, decisions become facts, and sessions run
	@$(BIN)/python -m benchmarks.decide
	@$(BIN)/python -m benchmarks.durable
	@$(BIN)/python -m benchmarks.latency

docs: setup ## Write what is generated from the code: the sync client and the reference pages
	@$(BIN)/python -m tools.sync_sdk
	@$(BIN)/python -m tools.reference

format: setup ## Format the tree and apply the safe fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --custom-compile-command "make lock" --no-emit-package sokovan pyproject.toml

# The versions of run.txt are those of dev.txt, so that what runs is what was tested.
lock: setup ## Resolve requirements/dev.txt and run.txt anew (needs a package index)
	@$(COMPILE) --extra dev --upgrade -o requirements/dev.txt
	@$(COMPILE) --extra editable --upgrade -c requirements/dev.txt -o requirements/run.txt

clean: ## Remove the virtual environment and caches
	@rm -rf $(VENV) web/node_modules src/sokovan/dashboard/static screenshots .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
