# Two commands do everything on a fresh machine: `make reproduce` and `make test`.
PYTHON ?= python3
# the oldest Python that kibitz runs on, for `make test-oldest`
OLDEST ?= python3.11
BIN := .venv/bin
# the tests that are feasible without compiling, in plain Python
PLAIN := tests/policies/test_contract.py tests/engine/test_rng.py tests/engine/test_loop.py
# on all cores, a file on one of them: its tests share what they compile
PYTEST := -m pytest -q -n auto --dist loadfile

.PHONY: reproduce check test coverage test-oldest lint docs bench clean

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[reproduce,test,contract,lint,docs]'
	touch $@

.venv-oldest/installed: pyproject.toml requirements/oldest.txt
	$(OLDEST) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint requirements/oldest.txt --editable '.[reproduce,test]'
	touch $@

reproduce: .venv/installed
	$(BIN)/kibitz reproduce

check: lint
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m 'not slow'

# the tests build the documentation, beside others
test: lint
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n auto $(PLAIN)
	$(BIN)/python $(PYTEST)

# prints the uncovered lines of `live/` and `policies/`; coverage cannot see compiled code, so the first run compiles none
coverage: .venv/installed
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n auto --cov --cov-report= $(PLAIN)
	$(BIN)/python $(PYTEST) --cov --cov-append tests/live tests/policies

# libraries of that age may use what the newest ones below them deprecate
test-oldest: .venv-oldest/installed
	.venv-oldest/bin/python $(PYTEST) -W ignore::DeprecationWarning

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/installed
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build

bench: .venv/installed
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/live.py
	$(BIN)/python benchmarks/serve.py
	$(BIN)/python benchmarks/cluster.py
	$(BIN)/python benchmarks/attack.py

clean:
	rm -rf .venv .venv-oldest .cache
