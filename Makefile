# Two commands do everything on a fresh machine, set-up included: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-all check bench reference docs clean

demo: $(VENV)/ready
	$(BIN)/unknot demo

test: check
	$(BIN)/python -m pytest -m "not slow" -n 2

test-all: check
	$(BIN)/python -m pytest -n 2

check: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/ready
	$(BIN)/python -m benchmarks.run

reference: $(VENV)/ready
	$(BIN)/unknot list --reference > docs/toml.md

docs: $(VENV)/ready-docs
	$(BIN)/python -m sphinx -q -E -W --keep-going -b html docs build/site

$(VENV)/ready-docs: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch numpy
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) .bench-venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
