# `make demo` and `make test` work on a fresh checkout: they create .venv and install what they need.
PYTHON ?= python3
# `make test-lowest` and `make test-3.13` run on these two Pythons.
PYTHON311 ?= python3.11
PYTHON313 ?= python3.13
VENV := .venv
# The extras that the two demonstrations need. A variable, because a comma inside $(call ...) would end an argument.
DEMO := studies,serve
BIN := $(VENV)/bin
# constraints.txt pins every version, including the build tools.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Two runs must give the same result, so the order of a set of strings must not vary.
export PYTHONHASHSEED := 0
# scikit-learn runs its array-API check on our estimator only if this is set.
export SCIPY_ARRAY_API := 1
# Two workers. tests/conftest.py says which tests run on the same one.
PYTEST := python -m pytest -n 2
# Hypothesis tries at most 40 examples instead of 100, unless a test has its own number.
SHORT := --hypothesis-profile=short

.PHONY: demo serve-demo quick test test-all test-faults test-3.13 test-lowest check fuzz mutants bench bench-flights bench-mcgrad figures screenshots clean

demo: $(VENV)/.demo
	$(BIN)/makewhole study flights --seeds 3 --out out

# Serves delay insurance on real flights, and prints the address to open in a browser.
serve-demo: $(VENV)/.demo
	$(BIN)/makewhole serve --demo

# The tests that are not marked slow (every long test counts as slow): under a minute.
quick: $(VENV)/.dev
	$(BIN)/$(PYTEST) $(SHORT) -q -m 'not slow'

# The tests that are not marked long: under five minutes. They cover every module and every promise.
test: $(VENV)/.dev
	$(BIN)/$(PYTEST) $(SHORT) -m 'not long'

# All tests, with coverage. Fails if the branch coverage is below the floor in pyproject.toml.
test-all: $(VENV)/.dev
	$(BIN)/$(PYTEST) --cov

# Does every drill of docs/operate.md DRILLS times and prints a table. Then kills the ledger's processes 200 times on
# each database, and makes the disk fail in more ways.
DRILLS ?= 10
test-faults: $(VENV)/.dev
	cd tests && ../$(BIN)/python -m ledger.drills $(DRILLS)
	MAKEWHOLE_KILLS=200 MAKEWHOLE_FUZZ=5 $(BIN)/$(PYTEST) -q tests/ledger -p no:cacheprovider

# All tests on Python 3.13.
test-3.13: $(VENV)-3.13/.dev
	$(VENV)-3.13/bin/$(PYTEST)

# All tests on Python 3.11 with the lowest versions that pyproject.toml allows. Old libraries use deprecated parts of
# each other, so deprecation warnings are ignored.
test-lowest: $(VENV)-lowest/.dev
	$(VENV)-lowest/bin/$(PYTEST) -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning

# Linter, formatter, types, import layers, and the tests of the files themselves.
check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py

# Runs the Hypothesis tests with new random examples for a few minutes. FUZZ=1000 runs them for hours.
FUZZ ?= 30
fuzz: $(VENV)/.dev
	MAKEWHOLE_FUZZ=$(FUZZ) $(BIN)/$(PYTEST) -q -m fuzz -p no:cacheprovider

# Breaks the program one line at a time, and prints the mistakes that no test notices.
# For one module: make mutants ARGUMENTS='--module src/makewhole/bets.py'
mutants: $(VENV)/.dev
	$(BIN)/python tools/mutants.py $(ARGUMENTS)

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

# Needs torch, which can download gigabytes, so `make bench` leaves this benchmark out.
bench-flights: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python benchmarks/bench_flights.py

# Needs MCGrad, which needs torch, so this target has its own environment.
bench-mcgrad:
	test -x $(VENV)-mcgrad/bin/python || $(PYTHON) -m venv $(VENV)-mcgrad
	PIP_CONSTRAINT= $(VENV)-mcgrad/bin/python -m pip install --quiet torch==2.13.0
	PIP_CONSTRAINT= $(VENV)-mcgrad/bin/python -m pip install --quiet mcgrad --editable '.[sklearn,studies]'
	$(VENV)-mcgrad/bin/python benchmarks/bench_mcgrad.py

# Rebuilds docs/studies.md, docs/stand-behind.md and their figures. Reads MNIST and Adult from the folder MAKEWHOLE_DATA,
# or downloads them. Southwest's flights must be in that folder.
figures: $(VENV)/.dev
	$(BIN)/python docs/build_studies.py
	$(BIN)/python docs/build_guide.py
	$(BIN)/python docs/build_watch.py

# Takes the server's screenshots for the docs from a running demonstration. Needs Chromium.
screenshots: $(VENV)/.dev
	$(BIN)/python tools/screenshots.py

clean:
	rm -rf $(VENV) $(VENV)-* out .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# Environments. A finished install leaves a stamp: .demo for the demonstrations' extras, .dev for all extras.
# An environment without a stamp was interrupted, so it is deleted and installed again.

# $(call install,interpreter,lowest version,what to try instead,extra)
define install
	$(if $(wildcard $(@D)/.demo $(@D)/.dev),,$(call refuse,$(1),$(2),$(3)))
	@test -f $(@D)/.demo || test -f $(@D)/.dev || rm -rf $(@D)
	@test -x $(@D)/bin/python || $(1) -m venv $(@D) || { rm -rf $(@D); exit 1; }
	@rm -f $(@D)/.demo $(@D)/.dev
	@echo "Installing makewhole[$(4)] into $(@D), once; this may take some minutes."
	@$(@D)/bin/python -m pip install --editable '.[$(4)]'
endef

# Stops with a one-line error if the interpreter is missing or too old.
refuse = $(if $(call unfit,$(1),$(2)),$(error \
$(if $(filter 3.11,$(2)),makewhole,this target) needs Python $(2) or later; $(call unfit,$(1),$(2)). Try: make $(3) $(or $(MAKECMDGOALS),demo)))
unfit = $(shell $(1) -c '$(LOOK)' $(2) 2>/dev/null || echo "$(1) cannot be run")
LOOK := import sys; v = sys.version_info; low = tuple(map(int, sys.argv[1].split("."))); \
print("" if v[:2] >= low else "%s is %d.%d.%d" % ((sys.executable,) + tuple(v[:3])))

$(VENV)/.demo: pyproject.toml constraints.txt
	$(call install,$(PYTHON),3.11,PYTHON=python3.12,$(DEMO))
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	$(call install,$(PYTHON),3.11,PYTHON=python3.12,dev)
	@touch $(VENV)/.demo $@

$(VENV)-3.13/.dev: pyproject.toml constraints.txt
	$(call install,$(PYTHON313),3.13,PYTHON313=/path/to/python3.13,dev)
	@touch $@

$(VENV)-lowest/.dev: export PIP_CONSTRAINT := $(CURDIR)/$(VENV)-lowest.txt
$(VENV)-lowest/.dev: pyproject.toml tools/lowest.py
	$(PYTHON311) tools/lowest.py > $(VENV)-lowest.txt
	$(call install,$(PYTHON311),3.11,PYTHON311=/path/to/python3.11,dev)
	@touch $@
