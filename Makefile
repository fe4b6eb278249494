# `make run` and `make test` need only Python 3.11.4+ and make; they set up the rest in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PLAIN := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
NOTEBOOKS := build/notebooks/.executed
# A process for each core; a file's tests stay together where they can, to share what they made.
PYTEST := $(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist worksteal

.PHONY: run test test-extras quick check docs notebooks dist clean

# The same bits on CPUs with and without AVX-512: docs/determinism.md.
ifeq ($(shell uname -m),x86_64)
run: export ATEN_CPU_CAPABILITY = avx2
endif
run: $(PLAIN)
	$(BIN)/linsep grid fashion-mini
	$(BIN)/linsep report --grid fashion-mini -o report.html

test: $(DEV)
	$(PYTEST)

# With Ray, submitit, optuna, Lightning, Transformers and Avalanche installed too: the tests that
# are skipped without them. Avalanche goes into a folder of its own together with torchvision, which
# cannot be imported beside the CPU build of torch and would take Lightning with it. It comes without
# the solvers that it names and the tests do not need.
AVALANCHE := $(abspath $(VENV)/avalanche)
test-extras: $(DEV)
	$(INSTALL) -e '.[dev,ray,search,slurm]' lightning transformers accelerate
	$(INSTALL) dill gdown gputil psutil qpsolvers setuptools torchmetrics wandb
	$(INSTALL) --no-deps --upgrade --target $(AVALANCHE) avalanche-lib pytorchcv torchvision
	$(BIN)/python -m pytest -q tests/grids/test_ray.py tests/grids/test_slurm.py \
	  tests/grids/test_search.py tests/test_examples.py
	PYTHONPATH=$(AVALANCHE) $(BIN)/python -m pytest -q tests/test_avalanche.py

quick: $(DEV)
	$(PYTEST) -m "not slow and not data"

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Every notebook is executed, into build/notebooks/, from where the site takes the outputs.
notebooks: $(PLAIN)
	rm -f $(NOTEBOOKS)
	$(MAKE) $(NOTEBOOKS)

$(NOTEBOOKS): $(PLAIN) $(wildcard notebooks/*.ipynb)
	$(INSTALL) -e '.[docs]'
	$(BIN)/python scripts/notebooks.py
	@touch $@

# The site, into site/; open site/index.html. Fails on the first warning.
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(NOTEBOOKS)
	$(BIN)/mkdocs build --quiet
	@echo "The site is in site/."

# A wheel and a source archive in dist/, checked, and the wheel tried in an empty environment.
dist: $(PLAIN)
	$(INSTALL) build twine
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	$(BIN)/python scripts/try_wheel.py $(if $(TORCH),--torch $(TORCH))

clean:
	rm -rf $(VENV) site dist build

$(PLAIN): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4))' || \
	  { echo "linsep needs Python 3.11.4 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@echo "Installing; the first time this takes a minute or two."
	$(INSTALL) -e '.[plot]'
	@touch $@

$(DEV): $(PLAIN)
	$(INSTALL) -e '.[dev]'
	@touch $@
