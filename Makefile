# make setup | demo | test | check | fix | bench | docs      (each does its own set-up)
# make environments       once, for the tests against foreign servers and libraries (2.6 GB)
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.ready
JOBS ?= 2
# How often a failed test is run again: the summary shows each first failure
RERUNS ?= 0
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal --reruns $(RERUNS)
RUNTIME := tests/agent tests/runtime tests/engine/test_local.py
# dspy has an environment of its own: it brings 349 MB
EXTRAS := $(addprefix --extra ,serve mcp langchain otel code postgres dbos restate evidence)

.PHONY: setup demo test test-logs check fix bench bench-parse bench-learn bench-retrieval bench-server bench-rust rust-audit rust-deny docs site site-serve lock environments rust clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("taofold needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

demo: $(STAMP)
	$(BIN)/taofold demo

test: $(STAMP)
	$(PYTEST) -m "not fuzz" --road all

# What runs promise, on the other logs: where a test makes a log in memory it gets one of these.
test-logs: $(STAMP)
	$(PYTEST) -q --log postgres $(RUNTIME)
	$(PYTEST) -q --log sqlite $(RUNTIME)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/python -m tests.conformance --check

fix: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m tests.conformance
	$(BIN)/python -m tests.documents
	$(BIN)/python -m tests.conformance_kit
	$(BIN)/python -m tests.tables
	$(BIN)/python -m tests.cli_reference > docs/cli.md

docs: $(STAMP)
	$(BIN)/python -m tests.conformance
	$(BIN)/python -m tests.documents
	$(BIN)/python -m tests.conformance_kit
	$(BIN)/python -m tests.tables
	$(BIN)/python -m tests.cli_reference > docs/cli.md

bench: $(STAMP)
	$(BIN)/python bench/steps/run.py

bench-parse: $(STAMP)
	$(BIN)/python bench/parse/run.py

# BUGS: a folder of broken projects of your own, instead of the corpus
bench-learn: $(STAMP)
	$(BIN)/python bench/learn/run.py $(BUGS)

# DATA: a folder of messages and what answers them (bench/retrieval/README.md)
bench-retrieval: $(STAMP)
	$(BIN)/python bench/retrieval/run.py $(DATA)

bench-server: $(STAMP)
	$(BIN)/python bench/server/load.py

# The documentation as a site, in site/ (make site-serve: in the browser while you write).
site site-serve: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/python -m tests.environments site
	"$$($(BIN)/python -c 'from tests import environments; print(environments.place("site").program("zensical"))')" \
	  $(if $(filter site,$@),build --clean --strict,serve)

# What some tests compare with: foreign libraries and servers, each in a place of its own.
environments: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/python -m tests.environments

lock:
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-header --no-annotate $(EXTRAS) --group dev pyproject.toml -o requirements.lock

# The runtime in Rust: format, what tests/rust need, tests, lints, documentation of every public item.
rust:
	cd rust && cargo fmt --check
	cd rust && cargo build --locked --bins --examples -j $(JOBS)
	cd rust && cargo test --locked -j $(JOBS)
	cd rust && cargo clippy --locked --all-targets -j $(JOBS) -- -D warnings
	cd rust && RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps -j $(JOBS)

# Known vulnerabilities in the crates of the lock file: `cargo install cargo-audit` first. It fetches
# the database of rustsec; without a network: make rust-audit AUDIT="--db FOLDER --no-fetch --stale".
rust-audit:
	cd rust && cargo audit --deny warnings $(AUDIT)

# Licences, bans and origins of the crates: `cargo install --locked cargo-deny` first. It needs no
# database; `make rust-deny DENY=advisories` asks the one of rustsec.
DENY ?= licenses bans sources
rust-deny:
	cd rust && cargo deny --locked check $(DENY)

# Both runtimes beside a bare loop in each language.
bench-rust: $(STAMP)
	$(BIN)/python bench/rust/run.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .hypothesis
