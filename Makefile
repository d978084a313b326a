# `make` alone lists the targets. Everything lives in .venv and .dpone; `make clean` removes both.

SHELL := /bin/sh
# Each worker has servers of its own; a file's tests stay together and share them.
PYTEST_ARGS ?= --numprocesses auto --maxprocesses 4 --dist loadfile
BIN := .venv/bin
STAMP := .venv/.setup-done

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-mssql test matrix chaos certify bench lint ui stop clean lock

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with the pinned dependencies and the `dpone` command
	@:

$(STAMP): pyproject.toml uv.lock requirements.lock setup.sh
	@sh setup.sh
	@touch $(STAMP)

demo: setup ## load a million rows, publish, hand over, load an increment; needs nothing but Python
	@$(BIN)/python -m demo.run postgres

demo-mssql: setup ## the same into SQL Server: the one of DPONE_CONNECTION_MSSQL_DWH, else a container that is started
	@$(BIN)/python -m demo.run mssql

test: lint ## lint, types, import direction, then all tests
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

chaos: setup ## N=50 random campaigns that are killed, cut and cancelled (SEED=, TARGET=postgres|mssql), each judged
	@N=$(N) SEED=$(SEED) TARGET=$(TARGET) $(BIN)/python -m tests.chaos

matrix: setup ## every fault point, killed, stopped and failed, on each target there is; writes docs/matrix.md
	@DPONE_MATRIX_PAGE=docs/matrix.md $(BIN)/python -m pytest tests/crash/test_matrix.py

certify: setup ## certify a route (SOURCE=, TARGET=: connection_refs), killed five times; writes .dpone/certify/report.json
	@ROWS=$(ROWS) CHUNKS=$(CHUNKS) LANES=$(LANES) LARGE=$(LARGE) SOURCE=$(SOURCE) TARGET=$(TARGET) KEEP=$(KEEP) $(BIN)/python -m certify

bench: setup ## contenders in turn on the same rows, into docs/benchmarks.md (CASES=, CONTENDERS=, REPEATS=, BUDGET= minutes)
	@CASES='$(CASES)' CONTENDERS='$(CONTENDERS)' REPEATS=$(REPEATS) BUDGET=$(BUDGET) RESUME=$(RESUME) $(BIN)/python -m benchmarks

lint: setup ## style, types and import direction only
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

ui: setup ## Dagster's UI on http://localhost:3000, with the campaign of the demo that was run last
	@$(BIN)/python -m demo.ui

stop: ## stop the demos' servers
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m demo.stop; fi

clean: ## stop the demos' servers; remove their data, .venv, .dpone and caches
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m demo.stop --volumes; fi
	@rm -rf .venv .dpone .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

lock: ## refresh uv.lock and requirements.lock (needs uv)
	@uv lock
	@uv export --quiet --frozen --extra ui --extra mssql --no-emit-project --output-file requirements.lock
	@uv export --quiet --frozen --no-dev --group build --extra ui --extra mssql --no-emit-project --output-file deploy/requirements.lock
