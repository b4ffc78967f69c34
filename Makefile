# Needs Python 3.11 or newer with venv, and nothing else. `make` alone lists the targets.

VENV := .venv
PY := $(VENV)/bin/python
# The first one that is new enough; another one: make PYTHON=/path/to/python
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$python && break; done)

# A set-up is as old as the list it was made from: its stamp bears the list's checksum.
stamp = $(VENV)/.$(1)-$(shell cksum < requirements/$(1).txt | tr ' ' '-')
BASE := $(call stamp,base)
EXTRAS := $(call stamp,extras)
DEV := $(call stamp,dev)
COMPILED := $(VENV)/.compiled

# Runs a command and shows what it wrote only if it failed.
quietly = @echo "$(1)" >&2; written=$$({ $(2); } 2>&1) || { printf '%s\n' "$$written"; exit 1; }

# More for pytest: make test PYTEST="-k kill -x". A test waits for processes and disks most of its time. A file stays with
# one worker: what is started for all of it is started once.
PYTEST ?= -n 3 --dist loadfile --no-loadscope-reorder

# Each worker reads all tests, and hundreds of processes are started: what they compile is kept.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run extras demo screenshots test unit fmt docs manifests site lint types servers chaos fuzz mutants bench bench-peers eval sbom release lock clean
.SUFFIXES:

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1|\2/p' Makefile | awk -F'|' '{ printf "%-12s %s\n", $$1, $$2 }'

run: $(BASE) ## set up, start Sluice, and load the sample library once: make run PORT=3001 DATA=folder
	@exec $(PY) -m services.operator_cli serve $(if $(PORT),--port $(PORT)) $(if $(DATA),--data $(DATA))

extras: $(EXTRAS) ## add support for legacy Word, PowerPoint and Outlook files and for images (300 MB)

demo: $(BASE) ## load, search, ask, change, delete: the whole system on a temporary folder
	@exec $(PY) -m services.operator_cli demo

# In CI the servers are built before: a test that built one would run into its time limit.
test: $(DEV) $(if $(CI),built) ## run every check: lint, types, import contracts, tests; CI=true make test runs the costly tests, too
	@$(MAKE) --no-print-directory -j3 lint types tests

.PHONY: tests
tests: $(COMPILED)
	@exec $(PY) -m pytest $(PYTEST)

# Once, by one process, which takes 20 s of CPU time; three workers beside each other would take 35 more.
$(COMPILED): $(DEV)
	@$(PY) -m pytest --collect-only -qq > /dev/null 2>&1 || true
	@touch $@

# What can't be built fails the tests that need it, by name.
.PHONY: built
built: $(DEV)
	-@$(PY) -m tests.servers >&2

unit: $(DEV) ## run the fast tests
	@exec $(PY) -m pytest -m "not slow" tests/unit tests/property $(PYTEST)

fmt: $(DEV) ## format the code and apply ruff's fixes
	@$(PY) -m ruff check --quiet --fix . ; $(PY) -m ruff format .

docs: $(DEV) ## regenerate parts of the pages: settings, targets, decisions, routes, features, output of the commands
	@exec $(PY) -m tests.docs.readme

manifests: $(DEV) ## render deploy/k8s from its chart (needs Go, or a Helm: make manifests HELM=helm)
	@exec $(PY) -m tests.docs.manifests $(if $(HELM),"$(HELM)")

site: $(DEV) ## write all pages as a site with search into build/site, by who reads them
	@exec $(PY) -m tests.docs.site

screenshots: $(DEV) ## retake the pictures of the console (needs Chromium); ALL=yes writes those of every page into build
	@exec $(PY) -m tests.screenshots

lint: $(DEV) ## run ruff and check the import contracts
	$(call quietly,ruff,$(PY) -m ruff check . && $(PY) -m ruff format --check .)
	$(call quietly,import contracts,$(VENV)/bin/lint-imports)

types: $(DEV) ## run mypy in strict mode
	$(call quietly,mypy,$(PY) -m mypy)

servers: $(DEV) ## build a real Kafka and Ollama for the tests, once (needs Maven, Java, Go)
	@exec $(PY) -m tests.servers

chaos: $(DEV) ## inject faults: make chaos FAULT=kill N=20 SEED=1; without FAULT, list them and the past runs
	@exec $(PY) -m tests.chaos $(FAULT) $(if $(N),-n $(N)) $(if $(SEED),--seed $(SEED))

fuzz: $(DEV) ## send made-up requests to every route and judge each reply: make fuzz CASES=3000 SECONDS=3600 SEED=1
	@exec $(PY) -m tests.fuzz $(if $(CASES),--cases $(CASES)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

mutants: $(DEV) ## break the code on purpose and show which check notices
	@exec $(PY) -m tests.mutants

bench: $(DEV) ## measure, and print the figures beside their bars: make bench ONLY=chunks, search, answers, standalone, distributed, generations, console, crowds, gaps or growth (DOCUMENTS='1000 10000'; CHUNKS=1000000 of search; KEEP=folder)
	@exec $(PY) -m tests.bench $(if $(ONLY),--only $(ONLY)) $(if $(DOCUMENTS),--documents $(DOCUMENTS)) $(if $(CHUNKS),--chunks $(CHUNKS)) $(if $(KEEP),--keep "$(KEEP)")

bench-peers: $(DEV) ## measure Sluice beside other programs and write docs/comparison.md: make bench-peers ONLY='bare sluice chroma' (installs each peer once, up to 2 GB)
	@exec $(PY) -m tests.bench.peers $(if $(ONLY),--only $(ONLY)) $(if $(DOCUMENTS),--documents $(DOCUMENTS))

eval: $(DEV) ## score retrieval or text extraction: make eval DATA=folder
	@test -n "$(DATA)" || { echo "make eval DATA=folder: name a folder of corpus, queries and judgements, or of files and what they hold"; exit 2; }
	@exec $(PY) -m tests.bench.eval "$(DATA)" $(or $(MODE),hybrid) $(EMBEDDER)

sbom: $(DEV) ## write the bill of materials and the licences of all packages into build/
	@exec $(PY) -m tests.licences.sbom build

release: $(DEV) ## build wheel, source distribution, bill of materials and checksums of the last commit into build/release
	@exec $(PY) deploy/release.py build/release

lock: ## pin all dependencies again from pyproject.toml (the only target that needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv: https://docs.astral.sh/uv/"; exit 2; }
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--group weights pyproject.toml -o requirements/base.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--all-extras --group weights -c requirements/base.txt pyproject.toml -o requirements/extras.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--all-extras --group weights --group dev -c requirements/extras.txt pyproject.toml -o requirements/dev.txt
	for asked in requirements/*.in tests/bench/peers/requirements/*.in; do uv pip compile -q --universal --python-version 3.11 --generate-hashes \
		--no-header --no-emit-index-url "$$asked" -o "$${asked%.in}.txt" || exit 1; done

clean: ## remove everything that can be rebuilt; SLUICE_DATA stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find services shared tests deploy -name __pycache__ -type d -prune -exec rm -rf {} +

# dev.txt holds all of extras.txt, and that all of base.txt, so whoever has the first has the others.
$(DEV): | $(PY)
	$(call install,dev)
	@touch $@ $(EXTRAS) $(BASE)

$(EXTRAS): | $(PY)
	$(call install,extras)
	@touch $@ $(BASE)

$(BASE): | $(PY)
	$(call install,base)
	@touch $@

# Of the longest list uv takes 9 s of CPU time, Python 3.11's own pip 84. Where uv can't run, or only pip knows the way to
# the packages, pip installs them. Not compiled: Python does that for what is used, at its first use; the rest is 70 MB.
LOCKED = --quiet --no-deps --require-hashes --only-binary :all: -r
PIP = $(PY) -m pip --disable-pip-version-check --no-input install --no-compile $(LOCKED)
UV = ! $(PY) -m pip config list | grep -q index && $(VENV)/bin/uv pip install --python $(PY) --system-certs $(LOCKED)
define install
@echo "installing requirements/$(1).txt into $(VENV), once" >&2
@rm -f $(VENV)/.base-* $(VENV)/.extras-* $(VENV)/.dev-*
@$(UV) requirements/$(1).txt || $(PIP) requirements/$(1).txt
@$(PY) -P -c 'import pathlib, sys, sysconfig; \
	(pathlib.Path(sysconfig.get_path("purelib")) / "sluice.pth").write_text(sys.argv[1] + "\n", "utf-8")' "$(CURDIR)"
@printf '#!/bin/sh\nexec "$$(dirname "$$0")/python" -P -m services.operator_cli "$$@"\n' > $(VENV)/bin/sluice
@chmod +x $(VENV)/bin/sluice
endef

$(PY):
	@test -n "$(PYTHON)" || { echo "Sluice needs Python 3.11 or newer, and no python3 here is:" \
		"install one, or name it: make PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" -c '' 2>/dev/null || { echo "PYTHON=$(PYTHON) does not run as a Python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; v < (3, 11) and sys.exit("Sluice needs Python 3.11 or newer; $(PYTHON) is %d.%d" % v[:2])'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) comes without venv:" \
		"install it (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	-@$(PIP) requirements/uv.txt
