# make demo: see what steptime does.  make test, make test-all, make check: believe it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What is imported is compiled then; most of what is installed never is.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

# Files of tests are shared out among processes, at most 4 for their memory.
PYTEST := $(BIN)/pytest -q --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-all check docs fuzz results wheels clean packages

demo: $(VENV)/installed $(VENV)/recorder
	$(BIN)/steptime compare --ranks 4 --out runs/demo

test: packages $(VENV)/installed-dev $(VENV)/recorder
	$(PYTEST) -m 'not slow'

test-all: packages $(VENV)/installed-dev $(VENV)/recorder
	$(PYTEST)

# Before anything is installed: a compiler is among them, for the kernel of the backend.
packages:
	tests/system-packages.sh

check: packages $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation as a site, in site/: open site/index.html. The variable silences the theme's notice
# that it is maintained until May 2027.
docs: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Nasty arguments and broken files for every verb, for SECONDS=120; the seed that it prints, as
# SEED=N, gives the same ones again.
fuzz: $(VENV)/installed-dev
	$(BIN)/python benchmarks/fuzz.py --seconds $(or $(SECONDS),120) $(if $(SEED),--seed $(SEED))

# Measure again what docs/results shows; ONLY=WORD takes the blocks with that word. And predict again
# what docs/accuracy.md judges.
results: $(VENV)/installed-dev
	$(BIN)/python benchmarks/results.py $(if $(ONLY),--only '$(ONLY)')
	$(BIN)/python benchmarks/accuracy.py

# Wheels for Linux on x86-64 and ARM64, in dist/.
wheels: packages $(VENV)/installed-dev
	BIN=$(BIN) .ci/wheels dist

clean:
	rm -rf $(VENV) runs site dist

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("steptime needs Python 3.11 or newer: set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt setup.py $(wildcard $(addprefix src/steptime/,backend/kernel/* record/recorder/* record/dispatch/* simulate/engine/*)) | $(BIN)/python
	@echo "installing steptime and torch into $(VENV): about a minute"
	$(PIP) torch
	$(PIP) -e '.[train]'
	touch $@

# What records calls in C++, for the torch that is installed; they are recorded without it, too.
$(VENV)/recorder: $(VENV)/installed
	$(BIN)/python -m steptime.record.dispatch || true
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) 'steptime[dev]'  # the one that is installed: nothing is built again
	touch $@
