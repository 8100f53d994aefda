# Two commands: `make serve` starts a node, `make test` runs every check.
# They need Rust, Python 3 and make; Node.js only for the tests of its client.

CARGO ?= cargo
PYTHON ?= python3

.PHONY: help serve test

help:
	@echo "make serve   build Quoit and start a node on 127.0.0.1, data in ./data"
	@echo "make test    run every check: style, tests, real clients, recorded conversations"
	@echo "             (one part of it: python3 tests/run.py PART; --list names the parts)"

serve:
	$(CARGO) build --release --package quoit
	$(CARGO) run --quiet --release --package quoit -- serve --data-dir ./data

test:
	$(PYTHON) tests/run.py
