# Each goal makes .venv if it is not there and installs what it needs, once.
# Another Python or another environment: make PYTHON=python3.12 VENV=/tmp/venv test

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && break; done)
BIN := $(VENV)/bin
USE := $(VENV)/.installed
DEVELOP := $(VENV)/.installed-dev
DOCUMENT := $(VENV)/.installed-docs
PIP := PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --no-compile
# Two workers, one thread each, are faster than one worker with two. Hundreds of processes import PyTorch, and without bytecode files
# (some images of containers turn them off) each would compile it again: two seconds.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal
# The files with tests of torch.compile: to import all test files a second time would take longer than these tests.
COMPILED = $(shell grep -rl --include='test_*.py' 'mark\.compile' tests)

# A build that was interrupted has no index for the search; the next one writes all pages again.
COMPLETE = $(if $(wildcard docs/_build/html/searchindex.js),,-a)

.PHONY: help demo test test-slow test-faults test-gpu fuzz audit lock check contracts bench docs docs-figures clean

help:
	@echo "make demo          train a small translator on the built-in pairs and look at its attention"
	@echo "make test          all tests except the slow ones"
	@echo "make test-slow     the slow ones"
	@echo "make test-faults   a hundred kills, every write and allocation failing, full disks, damaged files (half an hour)"
	@echo "make test-gpu      the tests that need an NVIDIA GPU (a few minutes)"
	@echo "make fuzz          100,000 generated inputs through every reader and loader (hours; FUZZ='--inputs 1000' for fewer)"
	@echo "make audit         compare packages with published advisories (ADVISORIES=all.zip: a saved archive, without a network)"
	@echo "make lock          write requirements.lock, with hashes, for the versions in constraints.txt"
	@echo "make contracts     the table of every mechanism, number format, circumstance and form (ten minutes)"
	@echo "make check         style, types, and which package may import which"
	@echo "make bench         speed"
	@echo "make docs          build the documentation into docs/_build/html and run its lessons (at most ten minutes; FAST=1: do not run them)"
	@echo "make docs-figures  train the models of the pictures of docs/mechanisms and write these pages"
	@echo "make clean         remove everything that the goals above made, .venv included"

demo: $(USE)
	$(BIN)/regard demo --overwrite
	@echo "(the command regard is in $(BIN); 'source $(BIN)/activate' adds it to your shell)"

test: $(DEVELOP)
	$(PYTEST) -m "not slow and not compile and not faults"
	@JAXTYPING_DISABLE=1 $(PYTEST) -m "compile and not slow" $(COMPILED) || [ $$? -eq 5 ]

test-slow: $(DEVELOP)
	$(PYTEST) -m "slow and not compile and not faults"
	@JAXTYPING_DISABLE=1 $(PYTEST) -m "compile and slow" $(COMPILED) || [ $$? -eq 5 ]

test-faults: $(DEVELOP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/robustness/faults

test-gpu: $(DEVELOP)
	$(BIN)/python -m pytest -n 4 --dist worksteal tests/gpu tests/attention/test_additive_triton.py -m gpu

fuzz: $(DEVELOP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/robustness/fuzz/run.py $(FUZZ)

audit: $(DEVELOP)
	$(BIN)/python tools/audit.py $(if $(ADVISORIES),--advisories '$(ADVISORIES)')

# What users install, on every platform, with all its dependencies: CUDA's packages too, which constraints.txt leaves out.
lock: $(DEVELOP)
	$(PIP) uv
	$(BIN)/uv pip compile --no-config --quiet --universal --python-version 3.11.9 --generate-hashes --no-annotate \
		--custom-compile-command 'make lock' \
		--extra spacy --extra onnx --extra serve --extra sklearn --constraint constraints.txt --output-file requirements.lock pyproject.toml

check: $(DEVELOP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

contracts: $(DEVELOP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/contracts/table.py -n 2

bench: $(DEVELOP)
	$(BIN)/python -m benchmarks

docs: $(DOCUMENT)
	@echo "$(if $(FAST),building without running the lessons,building and running the lessons: ten minutes or less on two idle cores (make docs FAST=1 does not run them))"
	PYTHONPATH=. $(BIN)/python -m sphinx -b html -W --keep-going -q $(if $(FAST),-D nb_execution_mode=off) $(COMPLETE) docs docs/_build/html
	@echo "$(if $(FAST),the lessons were not run and have no outputs; )open docs/_build/html/index.html"

docs-figures: $(DEVELOP)
	OMP_NUM_THREADS=1 $(BIN)/python -m docs.generate

clean:
	rm -rf $(VENV) build dist runs docs/_build docs/reference/generated docs/lessons/notebooks .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "regard needs Python 3.11 or later; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(USE): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing regard into $(VENV): a minute or two"
	$(PIP) --editable '.[spacy]'
	@touch $@

$(DEVELOP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing regard and its development tools into $(VENV): a minute or two"
	$(PIP) --editable '.[spacy,dev,docs]'
	@touch $@ $(USE)

$(DOCUMENT): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing regard and the tools of its documentation into $(VENV): a minute or two"
	$(PIP) --editable '.[spacy,sklearn,docs]'
	@touch $@ $(USE)
