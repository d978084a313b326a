# `make` alone lists the targets. Everything lives in .venv and .dpone; `make clean` removes both.

SHELL := /bin/sh
BIN := .venv/bin
STAMP := .venv/.setup-done

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint ui stop clean lock

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with the pinned dependencies and the `dpone` command
	@:

$(STAMP): pyproject.toml uv.lock requirements.lock setup.sh
	@sh setup.sh
	@touch $(STAMP)

demo: setup ## load a million rows, publish, hand over, load an increment; needs nothing but Python
	@$(BIN)/python -m demo.run

test: lint ## lint, types, import direction, then all tests
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: setup ## style, types and import direction only
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

ui: setup ## Dagster's UI on http://localhost:3000, with the demo's campaign if the demo was run
	@$(BIN)/python -m demo.ui

stop: ## stop the demo's PostgreSQL server
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m demo.stop; fi

clean: stop ## remove .venv, .dpone and caches
	@rm -rf .venv .dpone .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

lock: ## refresh uv.lock and requirements.lock (needs uv)
	@uv lock
	@uv export --quiet --frozen --extra ui --no-emit-project --output-file requirements.lock
