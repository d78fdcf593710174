# `make` sets the project up; `make help` lists the other commands.

SHELL := /bin/sh
.SHELLFLAGS := -eu -c
.DEFAULT_GOAL := setup
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory --no-builtin-rules
# rustup installs cargo here, which may not be in PATH.
export PATH := $(PATH):$(HOME)/.cargo/bin
# The engine looks for the program in target/, so it must be built there.
unexport CARGO_TARGET_DIR
# The tests start hundreds of interpreters. With bytecode files, only the first of them compiles the modules.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
STAMPS := .venv/stamps
TOOLS := target/release-tools
DOCS := build/docs-venv
WORLD := target/release/fastopen-world
RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)
CARGO_QUIET ?= --quiet
SECONDS ?= 600
CASES ?= 20000
LOADS ?= 10000
SEED ?= 1
KILLS ?= 100
say = @printf '== %s\n' "$(1)" >&2
# Runs a command and prints its output as a whole when it ends, because other commands run at the same time.
whole = @said=$$(mktemp) && trap 'cat "$$said"; rm -f "$$said"' EXIT && trap 'exit 130' INT TERM && \
  $(1) >"$$said" 2>&1
# The stamp of Python's packages. `python-for-tests` also installs those of the tests, with one call of pip.
PYTHON := python
CARGO_TEST := RUSTC_WRAPPER="$(CURDIR)/tools/rustc-of-tests" cargo test $(CARGO_QUIET) --locked --release

.PHONY: setup world kernel check test coverage picture fuzz soak lint generate format reproduce bench kill-harness \
  wheel release release-check docs clean help set-up-for-tests rust-lint rust-quick-test rust-test-programs \
  rust-test rust-docs python-lint python-quick-test python-test python-test-of-worlds python-test-real-time

# In parallel, because downloads wait for the network and the kernel's build for single files.
setup: $(STAMPS)/prerequisites ## set everything up; leaves the command at .venv/bin/fastopen
	@$(MAKE) --jobs=2 $(WORLD) kernel
	$(call say,ready: $(BIN)/fastopen)

set-up-for-tests: $(STAMPS)/prerequisites
	@$(MAKE) --jobs=3 PYTHON=python-for-tests $(WORLD) kernel $(STAMPS)/prerequisites-of-tests \
	  $(STAMPS)/python-for-tests

# The host engine works without the kernel. If this machine cannot build it (exit status 3), only print the
# reason.
kernel: $(STAMPS)/$(PYTHON) ## build the virtual engine's kernel if missing (FASTOPEN_NO_KERNEL=1: never)
	@if [ -n "$${FASTOPEN_NO_KERNEL:-}" ]; then exit 0; fi; \
	$(BIN)/fastopen kernel build --if-missing >/dev/null || { status=$$?; \
	  [ $$status -eq 3 ] || exit $$status; \
	  printf '== no kernel for the virtual engine (why: above); the host engine works without\n' >&2; }

world: $(WORLD) ## build the Rust program

check: $(STAMPS)/prerequisites-of-tests $(STAMPS)/python-for-tests ## lint, check types, run quick tests, in a minute
	@$(MAKE) --jobs=3 rust-quick-test python-lint python-quick-test

rust-quick-test: rust-lint
	$(call say,tests of the pure crates)
	$(call whole,MAKEFLAGS= PROPTEST_RNG_SEED=7413 PROPTEST_CASES=32 $(CARGO_TEST) \
	  --package fastopen-link --package fastopen-page --package fastopen-contract --package fastopen-evidence)

python-quick-test: $(STAMPS)/python-for-tests $(STAMPS)/prerequisites-of-tests
	$(call say,quick tests of Python)
	$(call whole,$(BIN)/pytest --numprocesses auto --hypothesis-profile quick -m 'not e2e and not slow')

# Compilers first. Python's linters and tests run beside them at a lower priority. Then tests of worlds, which
# mostly wait. Tests that judge times run last, when nothing else does.
test: $(STAMPS)/prerequisites ## set up, then run every formatter, linter, type check and test
	@$(MAKE) --jobs=4 PYTHON=python-for-tests rust-test python-lint python-test-of-worlds
	@$(MAKE) python-test-real-time

reproduce: setup ## set up, then load the TFO paper's pages and print its table with these results
	@$(BIN)/fastopen reproduce radhakrishnan2011 --report

coverage: set-up-for-tests ## print the percentage of lines that tests reach, in Python and in Rust
	@$(BIN)/pytest --numprocesses auto --cov=fastopen --cov-report=term:skip-covered
	@tools/rust-coverage --workspace

picture: setup ## write the README's picture of the table, with the README's first command
	@run=$$(mktemp -d) && trap 'rm -rf "$$run"' EXIT && \
	  command=$$(sed -n 's/^fastopen run/run/p' README.md | head -n 1) && \
	  $(BIN)/fastopen $$command --engine virtual --output "$$run/kept" >/dev/null && \
	  $(BIN)/fastopen show "$$run/kept" --svg docs/images/example.svg >/dev/null

fuzz: set-up-for-tests ## test all readers, jobs and models with random inputs (SECONDS=600, CASES=20000)
	@$(BIN)/python -m fastopen.pages.fuzz --seconds $(SECONDS)
	@$(BIN)/pytest --hypothesis-profile long -k 'any_ or takes' tests/python/experiments/test_experiments.py \
	  tests/python/common/test_units.py tests/python/contract/test_job_reader.py
	@PROPTEST_CASES=$(CASES) cargo test $(CARGO_QUIET) --locked --release -p fastopen-link -p fastopen-page
	@PROPTEST_CASES=$(CASES) cargo test $(CARGO_QUIET) --locked --release -p fastopen-contract --test job_reader

soak: setup ## load random pages over random networks and check each verdict (LOADS=10000, SEED=1)
	@$(BIN)/python tools/soak.py --loads $(LOADS) --seed $(SEED)

# In parallel, because mypy has one thread and cargo waits for single crates.
lint: $(STAMPS)/prerequisites-of-tests $(STAMPS)/python-for-tests ## check formatting, lint, check types
	@$(MAKE) --jobs=2 rust-lint python-lint

generate: $(STAMPS)/python-for-tests ## write all that is made from the code: schemas, cases, tables of documents
	@$(BIN)/python tools/generate.py

format: $(STAMPS)/python-for-tests ## format all code
	@cargo fmt --all
	@$(BIN)/ruff check --quiet --fix-only python tests tools benches examples packages
	@$(BIN)/ruff format --quiet python tests tools benches examples packages

bench: setup ## run every benchmark; they print tables with the machine's facts
	@printf '%s, %s cores, Linux %s\n\n' \
	  "$$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$$(nproc)" "$$(uname -r)"
	@cargo bench $(CARGO_QUIET) --locked --package fastopen-world --bench world
	@$(BIN)/python benches/parallel.py
	@$(BIN)/python benches/scale.py
	@$(BIN)/python benches/virtual.py
	@$(BIN)/python benches/chromium.py
	@cargo bench $(CARGO_QUIET) --locked --package fastopen-link
	@cargo bench $(CARGO_QUIET) --locked --package fastopen-intercept --bench exec

kill-harness: set-up-for-tests ## kill runs at random, check that no load is lost and nothing is left (KILLS=100)
	@FASTOPEN_KILLS=$(KILLS) $(BIN)/pytest --numprocesses 4 -rP -k 'killed_at_any or whatever_process' \
	  tests/python/runs/test_resume.py tests/python/runs/test_kills.py

release: $(STAMPS)/prerequisites ## build dist/: manylinux wheels, the kernel's wheel, sdist, SBOMs, checksums
	@$(MAKE) --jobs=2 kernel $(TOOLS)/ready
	@$(BIN)/python tools/release.py $(TOOLS)

# tools/fresh-machine needs root.
release-check: release ## try the README's two commands and the wheels on fresh machines, with times (as root)
	@tools/fresh-machine --debian 13 --wheels dist
	@tools/fresh-machine --debian 12 --wheels dist

wheel: $(STAMPS)/python ## build dist/*.whl: Python package, data and Rust program in one
	$(call say,wheel)
	@$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

docs: ## build the site of the documents, build/site/index.html, and check its links
	@$(MAKE) --jobs=2 rust-docs $(DOCS)/ready
	@$(DOCS)/bin/python tools/site_builder.py
	$(call say,built: build/site/index.html)

rust-docs:
	@cargo doc $(CARGO_QUIET) --locked --release --workspace --no-deps

clean: ## remove everything that was built or installed here
	@rm -rf .venv target dist build .pytest_cache .ruff_cache .mypy_cache .hypothesis

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
	  printf '  make %-13s %s\n' "$$name" "$$text"; done

rust-lint: $(STAMPS)/prerequisites-of-tests
	$(call say,cargo fmt; cargo clippy; cargo doc; licences and versions of dependencies)
	@cargo fmt --all --check
	@cargo clippy $(CARGO_QUIET) --locked --release --workspace --all-targets -- -D warnings
	@RUSTDOCFLAGS='-D warnings' cargo doc $(CARGO_QUIET) --locked --release --workspace --no-deps
	@tools/check_dependencies.py

# After the linter, because cargo locks target/release for one command at a time.
rust-test-programs: rust-lint
	$(call say,cargo test --no-run)
	@$(CARGO_TEST) --workspace --no-run

# Random tests have a fixed seed, as in Python (tests/python/conftest.py): if one fails, a change broke it.
rust-test: rust-test-programs kernel $(WORLD)
	$(call say,cargo test)
	$(call whole,MAKEFLAGS= PROPTEST_RNG_SEED=7413 $(CARGO_TEST) --workspace)

python-lint: $(STAMPS)/python-for-tests
	$(call say,ruff; mypy)
	@$(BIN)/ruff check --quiet python tests tools benches examples packages
	@$(BIN)/ruff format --quiet --check python tests tools benches examples packages
	@nice -n 19 $(BIN)/mypy --no-error-summary
	@nice -n 19 $(BIN)/python tools/generate.py --check

python-test: $(STAMPS)/python-for-tests $(STAMPS)/prerequisites-of-tests
	$(call say,pytest of what needs no world: minutes)
	$(call whole,nice -n 10 $(BIN)/pytest --numprocesses auto -m 'not real_time and not e2e')

# After the other tests, because worlds in real time need a machine that is not too busy. More processes than
# cores, because worlds wait more than they compute.
python-test-of-worlds: python-test kernel $(WORLD)
	$(call say,pytest of what needs worlds)
	$(call whole,nice -n 10 $(BIN)/pytest --numprocesses $$((2 * $$(nproc))) -m 'not real_time and e2e')

python-test-real-time: $(STAMPS)/python-for-tests $(WORLD)
	$(call say,pytest of what judges times: one after the other)
	@$(BIN)/pytest -m real_time

$(WORLD): $(RUST) | $(STAMPS)/prerequisites
	$(call say,cargo build --release (minutes the first time))
	@cargo build $(CARGO_QUIET) --locked --release --package fastopen-world
	@touch $@

$(STAMPS)/prerequisites: tools/prerequisites Cargo.toml pyproject.toml
	@tools/prerequisites
	@mkdir -p $(@D)
	@touch $@

$(STAMPS)/prerequisites-of-tests: tools/prerequisites Cargo.toml pyproject.toml
	@tools/prerequisites tests
	@mkdir -p $(@D)
	@touch $@ $(STAMPS)/prerequisites

$(STAMPS)/venv: | $(STAMPS)/prerequisites
	$(call say,Python environment in .venv)
	@python3 -m venv .venv
	@touch $@

# With --no-compile, modules are compiled when they are first used; most of them never are.
PIP_INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check \
  --no-compile
PACKAGES := pyproject.toml constraints.txt Cargo.toml tools/hatch_build.py $(STAMPS)/venv

$(STAMPS)/python: $(PACKAGES)
	$(call say,Python packages)
	@$(PIP_INSTALL) --editable .
	@touch $@

$(STAMPS)/python-for-tests: $(PACKAGES)
	$(call say,Python packages with those of linters and tests)
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@ $(STAMPS)/python

$(TOOLS)/ready: tools/release-requirements.txt
	$(call say,what a release is built with)
	@python3 -m venv $(TOOLS)
	@$(TOOLS)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(DOCS)/ready: docs/requirements.txt | $(STAMPS)/prerequisites
	$(call say,what the site is built with)
	@rm -rf $(DOCS)
	@python3 -m venv $(DOCS)
	@$(DOCS)/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@
