# `make demo` and `make test` work on a fresh checkout: they make .venv and install what they need.
PYTHON ?= python3
# The two other Pythons that `make test-lowest` and `make test-3.13` run on.
PYTHON311 ?= python3.11
PYTHON313 ?= python3.13
VENV := .venv
# What the two demonstrations need; a comma in a call would end an argument.
DEMO := studies,serve
BIN := $(VENV)/bin
# The one constraints file pins the versions of everything, build tools included.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Two runs are the same run: string hashing must not decide an order.
export PYTHONHASHSEED := 0
# scikit-learn runs its array-API check on our estimator only where SciPy has this.
export SCIPY_ARRAY_API := 1

.PHONY: demo serve-demo quick test test-faults test-3.13 test-lowest check fuzz mutants bench bench-flights bench-mcgrad figures screenshots clean

demo: $(VENV)/.demo
	$(BIN)/makewhole study flights --out out

# Delay insurance on real flights, in a browser: prints one address.
serve-demo: $(VENV)/.demo
	$(BIN)/makewhole serve --demo

# Everything that is not marked slow: under a minute.
quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -q -m 'not slow'

# Everything, with the branches that no test takes; fails below the floor in pyproject.toml.
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --cov

# The ledger's processes are killed two hundred times on each database, and the disk fails in more ways.
test-faults: $(VENV)/.dev
	MAKEWHOLE_KILLS=200 MAKEWHOLE_FUZZ=5 $(BIN)/python -m pytest -n 2 -q tests/ledger -p no:cacheprovider

test-3.13: $(VENV)-3.13/.dev
	$(VENV)-3.13/bin/python -m pytest -n 2

# On Python 3.11, with the lowest versions that pyproject.toml promises; old libraries warn of each other.
test-lowest: $(VENV)-lowest/.dev
	$(VENV)-lowest/bin/python -m pytest -n 2 -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py

# Searches for trouble, a few minutes long and elsewhere each time; FUZZ=1000 searches for hours.
FUZZ ?= 30
fuzz: $(VENV)/.dev
	MAKEWHOLE_FUZZ=$(FUZZ) $(BIN)/python -m pytest -n 2 -q -m fuzz -p no:cacheprovider

# Wrong programs that the tests must notice. For one module: make mutants ARGUMENTS='--module src/makewhole/bets.py'
mutants: $(VENV)/.dev
	$(BIN)/python tools/mutants.py $(ARGUMENTS)

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

# Needs torch, which on some machines pulls gigabytes: hence apart.
bench-flights: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python benchmarks/bench_flights.py

# Needs MCGrad, and it torch: apart, too, and in an environment of its own.
bench-mcgrad:
	test -x $(VENV)-mcgrad/bin/python || $(PYTHON) -m venv $(VENV)-mcgrad
	PIP_CONSTRAINT= $(VENV)-mcgrad/bin/python -m pip install --quiet torch==2.13.0
	PIP_CONSTRAINT= $(VENV)-mcgrad/bin/python -m pip install --quiet mcgrad --editable '.[sklearn,studies]'
	$(VENV)-mcgrad/bin/python benchmarks/bench_mcgrad.py

# Rebuilds docs/studies.md, docs/stand-behind.md and their figures; takes MNIST and Adult from MAKEWHOLE_DATA or downloads them. Southwest's flights must be there.
figures: $(VENV)/.dev
	$(BIN)/python docs/build_studies.py
	$(BIN)/python docs/build_guide.py

# The pictures of the server in the documents, from a demonstration that runs; needs a Chromium.
screenshots: $(VENV)/.dev
	$(BIN)/python tools/screenshots.py

clean:
	rm -rf $(VENV) $(VENV)-* out .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# Environments. A stamp says that an install went through to its end: .demo for what the demo needs, .dev for
# everything. An environment without a stamp was cut short, and is made anew.

# $(call install,interpreter,lowest version,what to try instead,extra)
define install
	$(if $(wildcard $(@D)/.demo $(@D)/.dev),,$(call refuse,$(1),$(2),$(3)))
	@test -f $(@D)/.demo || test -f $(@D)/.dev || rm -rf $(@D)
	@test -x $(@D)/bin/python || $(1) -m venv $(@D) || { rm -rf $(@D); exit 1; }
	@rm -f $(@D)/.demo $(@D)/.dev
	@echo "Installing makewhole[$(4)] into $(@D), once; this may take some minutes."
	@$(@D)/bin/python -m pip install --editable '.[$(4)]'
endef

# Stops with one line where the interpreter is too old, or is not there.
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
