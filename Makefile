# `make demo` and `make test` work on a fresh checkout: they make .venv and install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The one constraints file pins the versions of everything, build tools included.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Two runs are the same run: string hashing must not decide an order.
export PYTHONHASHSEED := 0
# scikit-learn runs its array-API check on our estimator only where SciPy has this.
export SCIPY_ARRAY_API := 1

.PHONY: demo test check bench bench-flights bench-mcgrad figures clean

demo: $(VENV)/.installed
	$(BIN)/makewhole study flights --out out

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/run.py

# Needs torch, which on some machines pulls gigabytes: hence apart.
bench-flights: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python benchmarks/bench_flights.py

# Needs MCGrad, and it torch: apart, too, and in an environment of its own.
bench-mcgrad:
	test -x $(VENV)-mcgrad/bin/python || $(PYTHON) -m venv $(VENV)-mcgrad
	PIP_CONSTRAINT= $(VENV)-mcgrad/bin/python -m pip install --quiet torch==2.13.0
	PIP_CONSTRAINT= $(VENV)-mcgrad/bin/python -m pip install --quiet mcgrad --editable '.[sklearn,studies]'
	$(VENV)-mcgrad/bin/python benchmarks/bench_mcgrad.py

# Rebuilds docs/studies.md, docs/stand-behind.md and their figures; takes MNIST and Adult from MAKEWHOLE_DATA or downloads them.
figures: $(VENV)/.installed
	$(BIN)/python docs/build_studies.py
	$(BIN)/python docs/build_guide.py

clean:
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@
