# make run: the demonstration. make test, make check, make bench: for developers. make clean: remove what these made here.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
SHORT := tests/agent tests/boundaries tests/cli tests/client tests/escapes tests/network tests/prove tests/sandbox tests/server

.PHONY: run setup test test-short test-current test-all soak fuzz check format bench compare clean
.DEFAULT_GOAL := run

run: setup
	@$(BIN)/python examples/penguins.py out

# runsc and the default image, where they are missing: in this user's own data directory.
setup: $(VENV)/.dayfly
	@$(BIN)/dayfly setup

$(VENV)/.dayfly: pyproject.toml tools/venv.sh
	@echo "installing dayfly into $(VENV)"
	@bash tools/venv.sh $(VENV)
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.developer: $(VENV)/.dayfly
	@echo "installing the tools for developers into $(VENV)"
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install --editable '.[server,client,keyring,objects]' --group test --group check
	@touch $@

test: $(VENV)/.developer
	@$(BIN)/dayfly setup --image data --image python
	@$(BIN)/python tools/side_by_side.py -- -m 'not soak'

# What differs between users: for the ordinary user of .ci/run.
test-short: $(VENV)/.developer
	@$(BIN)/dayfly setup --image data --image python
	@$(BIN)/python tools/side_by_side.py $(SHORT) -- -m 'not soak'

# The walls again, with gVisor's current source, where a Go toolchain of this machine can build it.
test-current: $(VENV)/.developer
	@$(BIN)/dayfly setup --image data
	@echo "building gVisor's current source"
	@if runsc=$$($(BIN)/python tools/current_runsc.py); then \
	  DAYFLY_RUNSC=$$runsc $(BIN)/python -m pytest -m 'not soak' tests/boundaries tests/escapes; \
	else \
	  echo "NOT TESTED: gVisor's current source could not be built here"; \
	fi

# Two thousand sandboxes in the life of one server: 15 minutes.
soak: $(VENV)/.developer
	@$(BIN)/dayfly setup --image python
	@$(BIN)/python -m pytest -s -m soak tests/server/test_soak.py

# Readers of hostile bytes under inputs that nobody would think of: make fuzz SECONDS=3600 TARGET="stream frames". See docs/fuzz.md.
SECONDS ?= 600
TARGET ?=

fuzz: $(VENV)/.developer
	@$(BIN)/python -m tests.fuzz "$(SECONDS)" $(TARGET)

test-all: $(VENV)/.developer
	@$(BIN)/dayfly setup --image data --image python
	@$(BIN)/python -m pytest

check: $(VENV)/.developer
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/mypy tests/client/typing_promises.py

format: $(VENV)/.developer
	@$(BIN)/ruff check --fix --select I
	@$(BIN)/ruff format

bench: $(VENV)/.developer
	@$(PIP) install --group bench
	@$(BIN)/dayfly setup --image data --image python
	@$(BIN)/python -m bench

# The same probes against other people's sandboxes: docs/comparison.md. What a package index and the distribution have is had; Docker is not set up.
compare: $(VENV)/.developer
	@$(BIN)/dayfly setup --image python
	@bash tools/venv.sh bench/peers-venv
	@bench/peers-venv/bin/python -m pip --disable-pip-version-check --quiet install --upgrade 'pip>=25.1'
	@bench/peers-venv/bin/python -m pip --disable-pip-version-check --quiet install --group compare
	@runsc=$$($(BIN)/python tools/current_runsc.py 2>/dev/null || true); \
	  $(BIN)/python -m bench.compare --python bench/peers-venv/bin/python --runsc "$$runsc" $(COMPARE)

clean:
	rm -rf $(VENV) out dist build .mypy_cache .ruff_cache .hypothesis .fuzz bench/peers-venv
