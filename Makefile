# Two commands do everything on a fresh machine with Python 3.11+ and make: `make demo`, `make test`.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
DEMO_STAMP := .venv/.demo-ready
DOCS_STAMP := .venv/.docs-ready
PECOS_STAMP := .venv/pecos/.ready
ANNIF_STAMP := .venv/annif/.ready
# Environments of their own: for PECOS, Annif, the lowest versions, builds and installed wheels.
ENVS ?= .venv
INSTALL := python -m pip install --quiet --disable-pip-version-check
PIP := $(BIN)/$(INSTALL) -c constraints.txt
LOWEST_STAMP := $(ENVS)/lowest/.ready
DIST_STAMP := $(ENVS)/dist/.ready

ATTACK ?=
SECONDS ?= 3600

.PHONY: demo test lint fuzz bench attack soak peers annif browser docs lowest dist install-check sbom clean

# Only what the demo uses, not the developer's tools.
demo: $(DEMO_STAMP)
	$(BIN)/python examples/demo.py

# Tests of a group run in one worker: those on Ray share a cluster. One thread per worker: on tiny
# models threads cost more than they give. The tracer of Python 3.12+ that costs least
# (sys.monitoring) measures branches from 3.14 on; coverage chooses.
test: lint
	@$(MAKE) --silent peers || echo "PECOS could not be installed: its tests are skipped"
	@$(MAKE) --silent browser || echo "There is no Chromium: tests of the page are skipped"
	@$(MAKE) --silent annif || echo "Annif could not be installed: its test is skipped"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadgroup --cov --cov-report=term

# Damaged models and readers: 10,000 mutations per model and ten minutes per reader, some hours in
# all. It goes on where it stopped; findings and tables are in fuzz/. MUTATIONS and READER_SECONDS bound it.
MUTATIONS ?= 10000
READER_SECONDS ?= 600
fuzz: $(STAMP)
	$(PIP) -e '.[fuzz]'
	PYTHONPATH=tests $(BIN)/python -m hostile.fuzz_models --mutations $(MUTATIONS) --out fuzz/models
	PYTHONPATH=tests $(BIN)/python -m hostile.fuzz_readers --seconds $(READER_SECONDS) --out fuzz/readers

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The table that opens benchmarks/README.md: `make bench DATA="folder folder"`, each with train and
# test files; without DATA, on the generated shop.
bench: $(STAMP)
	$(BIN)/python benchmarks/overview.py $(DATA)

# Kills, failing disks, threads and numbers at the edge, a hundred times each: about two hours. What
# the commit has been tried on is skipped; ATTACK="--parts kills --times 20" tries less.
attack: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/attack.py $(ATTACK)

# A server under mixed load for an hour, or SECONDS=300, and ten thousand updates.
soak: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/soak.py --seconds $(SECONDS)

# PECOS, for `labelspace compare --peers pecos`, in an environment of its own: it needs numpy below 2.
# There are wheels for Python 3.11 and 3.12.
peers: $(PECOS_STAMP)

# Annif, to test it as a client of `labelspace serve` and to measure both, in an environment of its
# own: it needs other versions of numpy and scikit-learn.
annif: $(ANNIF_STAMP)

# Chromium for the tests of the page, where it can be had from the system's packages without a question.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	command -v google-chrome >/dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		apt-get update -qq >/dev/null && apt-get install -y -qq chromium >/dev/null 2>&1; }

# The documentation as a site that needs no network: site/index.html. Dead links fail the build.
docs: $(DOCS_STAMP)
	$(BIN)/python docs/tables.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

# The lowest versions that pyproject.toml allows, on Python 3.11, in an environment of their own.
# Warnings are no errors here: old versions warn of what newer ones changed.
lowest: $(LOWEST_STAMP)
	PYTHONPATH=src OMP_NUM_THREADS=1 $(ENVS)/lowest/bin/python -m pytest -p no:xdist -W default $(LOWEST_TESTS)

LOWEST_TOOLS := pytest==9.2.0 hypothesis==6.170.15 httpx==0.28.1 pandas==2.2.2 polars==1.30.0
LOWEST_TESTS := tests/contract/test_contract.py tests/data/formats/test_tables.py tests/data/test_read.py \
	tests/features tests/search tests/model/test_store.py tests/model/test_tagger.py \
	tests/serve/test_api.py tests/serve/test_annif.py tests/cli/test_commands.py \
	tests/cli/test_predict.py tests/cli/test_output.py tests/tuning tests/plots -k "not seq2seq and not t5"

# dist/: wheel and sdist of the last commit, built twice; the bytes must be the same.
dist: $(DIST_STAMP)
	rm -rf dist
	$(ENVS)/dist/bin/python tools/build_dist.py dist

# The wheel in two empty environments, one with the core alone, used outside of the repository.
install-check: dist
	rm -rf $(ENVS)/core $(ENVS)/full
	$(PYTHON) -m venv $(ENVS)/core
	$(ENVS)/core/bin/$(INSTALL) -c constraints.txt dist/*.whl
	$(ENVS)/core/bin/python tools/check_install.py
	$(PYTHON) -m venv $(ENVS)/full
	$(ENVS)/full/bin/$(INSTALL) torch==2.13.0 -c constraints.txt "$$(echo dist/*.whl)[neural,serve]"
	$(ENVS)/full/bin/python tools/check_install.py --serve

# A bill of materials (CycloneDX) of the environment with the extras neural and serve.
sbom: install-check
	$(ENVS)/dist/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type library \
		--output-reproducible --of JSON -o dist/sbom.cdx.json $(ENVS)/full/bin/python

# torch first and alone: its pinned version is the one the constraints name.
$(DEMO_STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("labelspace needs Python 3.11 or newer: make PYTHON=python3.12 demo")'
	$(PYTHON) -m venv .venv
	$(PIP) torch==2.13.0
	$(PIP) -e '.[neural,serve]'
	touch $(DEMO_STAMP)

# On top of the demo's environment, whichever of the two is made first.
$(STAMP): $(DEMO_STAMP)
	$(PIP) -e '.[dev,peers]'
	touch $(STAMP)

# Only what XR-Linear imports: libpecos also depends on torch, transformers, datasets and peft.
$(PECOS_STAMP): constraints-pecos.txt $(STAMP)
	$(PYTHON) -m venv .venv/pecos
	.venv/pecos/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: -r constraints-pecos.txt
	touch $(PECOS_STAMP)

$(ANNIF_STAMP): constraints-annif.txt $(STAMP)
	$(PYTHON) -m venv .venv/annif
	.venv/annif/bin/python -m pip install --quiet --disable-pip-version-check -r constraints-annif.txt
	touch $(ANNIF_STAMP)

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $(DOCS_STAMP)

$(LOWEST_STAMP): constraints-lowest.txt
	@$(PYTHON) -c 'import sys; sys.version_info[:2] == (3, 11) or sys.exit("the lowest versions are those for Python 3.11: make PYTHON=python3.11 lowest")'
	$(PYTHON) -m venv $(ENVS)/lowest
	$(ENVS)/lowest/bin/$(INSTALL) -r constraints-lowest.txt $(LOWEST_TOOLS)
	touch $(LOWEST_STAMP)

$(DIST_STAMP): constraints-dist.txt
	$(PYTHON) -m venv $(ENVS)/dist
	$(ENVS)/dist/bin/$(INSTALL) -c constraints-dist.txt build setuptools cyclonedx-bom
	touch $(DIST_STAMP)

clean:
	rm -rf .venv demo fuzz build dist site .mypy_cache .ruff_cache .pytest_cache .coverage .coverage.*
