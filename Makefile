# Everwhen: every task of the project. Bare `make` lists them. Needs only Python >= 3.11 and make.
.DEFAULT_GOAL := help
.PHONY: help setup up test test-pg15 check format conformance bench bench-bars bench-fairness system browser brokers k8s chaos api-fuzz clients db migration release-baseline schema docs clean
SHELL := /bin/bash

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
UV_VERSION := 0.13.9
BIN := .venv/bin
PG15_BIN := /usr/lib/postgresql/15/bin
STAMP := .venv/.everwhen-setup
RUN := $(BIN)/
# The machine's own certificates, as pip trusts them.
export UV_SYSTEM_CERTS := 1

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml uv.lock
	@test -n "$(PYTHON)" || { echo "make: no Python >= 3.11 on the PATH; set PYTHON=/path/to/python3" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv==$(UV_VERSION)"
	@UV_PROJECT_ENVIRONMENT=.venv $(BIN)/uv sync --quiet --frozen --inexact --extra local --python $(BIN)/python
	@touch $@

setup: $(STAMP) ## Make the virtual environment (every other target does it by itself)

up: $(STAMP) ## Start everything on an embedded PostgreSQL and watch a scheduled run succeed
	@exec $(RUN)everwhen up

test: $(STAMP) ## Run the tests (real PostgreSQL, no network)
	@$(RUN)pytest -n 2 -q tests --ignore=tests/system --ignore=tests/browser --ignore=tests/brokers --ignore=tests/k8s --ignore=tests/clients

test-pg15: $(STAMP) ## Run the tests that use a database on PostgreSQL 15 (apt installs Debian's if it is missing)
	@test -x $(PG15_BIN)/postgres || apt-get install -y --no-install-recommends postgresql-15
	@EVERWHEN_TEST_PG_BIN=$(PG15_BIN) $(RUN)pytest -n 2 -q tests --ignore=tests/system --ignore=tests/browser --ignore=tests/brokers --ignore=tests/k8s --ignore=tests/clients --ignore=tests/core

check: $(STAMP) ## Format, lint, types and import contracts
	@$(RUN)ruff format --check .
	@$(RUN)ruff check .
	@$(RUN)pyright
	@$(RUN)lint-imports

format: $(STAMP) ## Format and repair what the linter can
	@$(RUN)ruff format .
	@$(RUN)ruff check --fix .

system: $(STAMP) ## Real processes and faults: kill -9, storms, stale workers
	@$(RUN)pytest -q -p no:xdist tests/system --timeout 300

browser: $(STAMP) ## Mails in a headless Chromium: light, dark, wide, narrow (apt installs Debian's if it is missing)
	@command -v chromium chromium-headless-shell >/dev/null || apt-get install -y --no-install-recommends chromium
	@$(RUN)pytest -q -p no:xdist tests/browser --timeout 300

brokers: $(STAMP) ## Clusters of NATS and RabbitMQ, and what befalls them (apt installs RabbitMQ if it is missing)
	@test -d /usr/lib/rabbitmq/lib || apt-get install -y --no-install-recommends rabbitmq-server
	@$(RUN)pytest -q -p no:xdist tests/brokers --timeout 300

k8s: $(STAMP) ## Kubernetes with a real node (root, cgroup v1; the first time it builds Kubernetes, about ten minutes of CPU)
	@for each in gcc patch ip; do command -v $$each >/dev/null || apt-get install -y --no-install-recommends gcc patch iproute2; done
	@tests/k8s/build.sh
	@tests/k8s/enclose.sh $(RUN)pytest -q -p no:xdist -p no:cacheprovider tests/k8s --timeout 600

chaos: $(STAMP) ## The stateful machine for longer, then ten minutes (CHAOS_SECONDS) of kill -9 and SIGSTOP, and a verdict
	@EVERWHEN_MACHINE_STEPS=$${EVERWHEN_MACHINE_STEPS:-20000} $(RUN)python -m pytest -q -p no:cacheprovider --timeout=3600 \
	  tests/dispatch/test_life_machine.py -k lives_as_the_model
	@$(RUN)python -m tests.chaos

api-fuzz: $(STAMP) ## Schemathesis over every operation with a token of each role (about an hour; API_FUZZ_CASES, API_FUZZ_SEED)
	@UV_PROJECT_ENVIRONMENT=.venv $(BIN)/uv sync --quiet --frozen --inexact --extra local --group fuzz --python $(BIN)/python
	@$(RUN)python -m tests.api_fuzz

clients: $(STAMP) ## Generate a Python and a TypeScript client from the document, compile and use them (needs npm, Node 20 or later)
	@UV_PROJECT_ENVIRONMENT=.venv $(BIN)/uv sync --quiet --frozen --inexact --extra local --group clients --python $(BIN)/python
	@npm ci --silent --no-audit --no-fund --prefix tests/clients/typescript
	@$(RUN)pytest -q -p no:xdist tests/clients --timeout 300

conformance: $(STAMP) ## Every zone, transition (2000-2040) and policy against an independent oracle (about 10 minutes)
	@$(RUN)python -m tests.core.conformance

bench: $(STAMP) ## Measure lag, cycles and planning beside peers and the raw-SQL limit
	@UV_PROJECT_ENVIRONMENT=.venv $(BIN)/uv sync --quiet --frozen --inexact --extra local --group bench --python $(BIN)/python
	@$(RUN)python -m benchmarks
	@$(RUN)python -m benchmarks.cron_speed

bench-bars: $(STAMP) ## Hold the hot path to its bars: one table, each beside its yardstick, met or missed
	@$(RUN)python -m benchmarks.bars

bench-fairness: $(STAMP) ## Measure shares, a noisy neighbour, a storm and a million waiting runs
	@$(RUN)python -m benchmarks.fairness

db: $(STAMP) ## psql into the embedded server that `make up` is running
	@exec $(RUN)everwhen db

schema: $(STAMP) ## Regenerate src/everwhen/postgres/schema.sql from the migrations
	@$(RUN)python -m everwhen.postgres.snapshot

release-baseline: $(STAMP) ## Keep the API as it is as the one that releases from here on must not break
	@$(RUN)python -m tests.contracts.openapi_released

migration: $(STAMP) ## Start a migration: make migration NAME=add_labels
	@$(RUN)python -m everwhen.postgres.new_migration "$(NAME)"

clean: ## Remove the environment and caches (never the data)
	@rm -rf .venv .pytest_cache .ruff_cache .hypothesis .coverage
