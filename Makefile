# `make serve` starts a node, `make cluster N=5` a cluster, `make test` runs every check.
# They need Rust, Python 3 and make; Node.js only for the tests of its client.

CARGO ?= cargo
PYTHON ?= python3

.PHONY: help serve cluster demo-replication test package

# What `quoit --version` says of where it came from.
export BUILD_COMMIT := $(shell git describe --always --dirty --abbrev=12 2>/dev/null)

# Nodes of `make cluster`, and further arguments of `quoit dev-cluster`.
N ?= 5
ARGS ?=

help:
	@echo "make serve   build Quoit and start a node on 127.0.0.1, data in ./data"
	@echo "make cluster N=5"
	@echo "             build Quoit and start 5 nodes that are one cluster, data in ./dev-cluster"
	@echo "make demo-replication"
	@echo "             two linked clusters of 4 nodes under load: how late a write is on the other one"
	@echo "make test    run every check: style, tests, real clients, recorded conversations"
	@echo "             (one part of it: python3 tests/run.py PART; --list names the parts)"
	@echo "make package build Quoit for packages (slow), and write deb, rpm and OCI image into target/package"

serve:
	$(CARGO) build --release --package quoit
	$(CARGO) run --quiet --release --package quoit -- serve --data-dir ./data

cluster:
	$(CARGO) build --release --package quoit
	$(CARGO) run --quiet --release --package quoit -- dev-cluster $(N) $(ARGS)

demo-replication:
	$(CARGO) build --release --package quoit
	$(PYTHON) benchmarks/replication.py --binary target/release/quoit $(ARGS)

test:
	$(PYTHON) tests/run.py

# Statically linked, so that one binary runs on every Linux of its architecture.
TARGET ?= $(shell rustc -vV | sed -n 's/^host: //p')

package:
	RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --profile dist --package quoit --target $(TARGET)
	$(CARGO) run --quiet --package quoit-package -- --binary target/$(TARGET)/dist/quoit --out target/package
