# Two commands do everything on a fresh machine: `make reproduce` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# the tests that are feasible without compiling, in plain Python
PLAIN := tests/policies tests/model tests/simulator/test_streams.py tests/simulator/test_engine.py

.PHONY: reproduce test lint docs bench clean

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[reproduce,test,lint,docs]'
	touch $@

reproduce: .venv/installed
	$(BIN)/kibitz reproduce

test: lint docs
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n auto $(PLAIN)
	$(BIN)/python -m pytest -q -n auto --dist loadfile

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/installed
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build

bench: .venv/installed
	$(BIN)/python benchmarks/speed.py

clean:
	rm -rf .venv
