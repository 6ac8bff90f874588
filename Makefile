# The commands that people type. Each is a line or two around cargo; `.ci/run` puts them together.

PORT ?= 6379
DATA ?= data
ROUNDS ?= 12
MINUTES ?= 1
TARGET := $(or $(CARGO_TARGET_DIR),target)
PEER := redis-server redis-cli redis-benchmark

.PHONY: run build test packages kill differential peer roundtrip model cluster waits effects thresholds clients compat dax crash mutate nightly miri tsan aarch64 release image check-package crates semver python deny bench lint doc ci

# Serves 127.0.0.1:$(PORT) over ./data: a pool, with a journal unless ./data is mounted with DAX. ARGS takes further
# options of perdura-server.
run: build
	@mkdir -p $(DATA)
	@exec $(TARGET)/release/perdura-server --bind 127.0.0.1 --port $(PORT) --dir $(abspath $(DATA)) \
		--backend auto --pool $(abspath $(DATA))/perdura.pool $(ARGS)

# The server, and `perdura`, which imports, backs up, checks and restores.
build:
	@cargo build --release --package perdura-server --package perdura-cli

# Every test of every crate, with the documentation's examples.
test: packages
	@tests/run $(TARGET)

# The peer that replies are compared with, from Debian. As root it is installed, without starting its service.
packages:
	@for program in $(PEER); do command -v $$program >/dev/null || exec .ci/packages; done
	@redis-server --version | grep -q 'v=7\.0\.15 ' || \
		echo "expected replies are those of Redis 7.0.15; this is $$(redis-server --version)"

# The programs that tests use. They are those that `make test` built: with an example, cargo selects the features that tests have.
PROGRAMS := cargo build --quiet --workspace --bins --example crash

# kill -9 under load, again and again, ROUNDS times for each way to persist: make kill ROUNDS=500 LOG=docs/evidence/kill.tsv
# ONLY="aof always" chooses some of them; ONLY=replicas those in which primaries are killed, whose clients wait for replicas.
kill:
	@KILL_ROUNDS=$(ROUNDS) $(if $(LOG),KILL_LOG=$(abspath $(LOG))) cargo test --quiet --release --package perdura-tests --test kill -- $(ONLY)

# Power cuts of a machine with an emulated NVDIMM and a DAX file system, after a test of what the server detects on each
# kind of memory: make dax CUTS=200 LOG=docs/evidence/dax.tsv, or a part of it: ONLY=domains, canary, media, comparison
# or cuts.
CUTS ?= 5
dax:
	@PATH=$$PATH:/usr/sbin:/sbin; \
	for program in qemu-system-x86_64 mkfs.ext4 mkfs.xfs debugfs redis-benchmark; do \
		command -v $$program >/dev/null || exec .ci/packages qemu-system-x86 e2fsprogs xfsprogs redis-tools; \
	done
	@$(PROGRAMS)
	@PERDURA_SERVER=$(abspath $(TARGET))/debug/perdura-server DAX_CUTS=$(CUTS) DAX_ONLY=$(ONLY) \
		$(if $(LOG),DAX_LOG=$(abspath $(LOG))) cargo test --quiet --workspace --test dax

# Random commands to Perdura, killed and started again meanwhile, and to redis-server: make differential MINUTES=10
differential: packages
	@DIFFERENTIAL_MINUTES=$(MINUTES) $(if $(LOG),DIFFERENTIAL_LOG=$(abspath $(LOG))) cargo test --quiet --release --package perdura-tests --test differential

# Generated cases about users, scripts and what others learn of commands, beside redis-server: make peer MINUTES=10 or CASES=5000,
# or one area: AREA=acl, AREA=scripts, AREA=events
peer: packages
	@PEER_MINUTES=$(MINUTES) PEER_CASES=$(CASES) $(if $(LOG),PEER_LOG=$(abspath $(LOG))) cargo test --quiet --release --package perdura-tests --test peer -- $(ONLY)$(AREA)

# Generated data and settings through every way out and in, field by field: make roundtrip MINUTES=10, or a part of it:
# AREA=dumps, AREA=inside (without servers) or AREA=configuration. PERDURA_REDIS8 and PERDURA_VALKEY9 name executables of Redis 8 and Valkey 9 that take part.
roundtrip: packages
	@ROUNDTRIP_MINUTES=$(MINUTES) ROUNDTRIP_AREA=$(AREA) cargo test --quiet --release --package perdura-tests --test roundtrip

# Random calls of the library and a model in memory: make model MINUTES=10, or one area: ONLY=calls, waits, threads or syncs.
model:
	@MODEL_MINUTES=$(MINUTES) cargo test --quiet --release --package perdura --test model -- $(ONLY)

# Simulated clusters that lose messages, nodes and time, SEEDS of them: make cluster SEEDS=600
cluster:
	@CLUSTER_SEEDS=$(or $(SEEDS),100) cargo test --quiet --release --package perdura-cluster --test it -- agreement::after

# What replies, pushes and wake-ups wait for, by CASES random requests around a write that the log does not have yet, for each way to
# persist and policy: make waits CASES=5000 SEED=7
waits:
	@WAITS_CASES=$(or $(CASES),3000) WAITS_SEED=$(or $(SEED),1) cargo test --quiet --release --package perdura-server --lib -- waits::
	@WAITS_CASES=$(or $(CASES),6000) WAITS_SEED=$(or $(SEED),1) cargo test --quiet --release --package perdura-commands --test it -- waits::

# Random histories of all commands that write, each step replayed from what was logged of it, CASES of them: make effects CASES=1000 SEED=7
effects:
	@RANDOM_EFFECTS_CASES=$(or $(CASES),1000) RANDOM_EFFECTS_SEED=$(or $(SEED),1) cargo test --quiet --release --package perdura-commands --test it -- random_effects::

# Every limit in seconds, bytes and counts below, at and above it, by a clock that the test moves, with CASES values of each limit:
# make thresholds CASES=50 SEED=7
thresholds:
	@THRESHOLDS_CASES=$(or $(CASES),30) THRESHOLDS_SEED=$(or $(SEED),1) cargo test --quiet --release --package perdura-server --lib -- thresholds::

# Client libraries and applications over Redis (tests/clients/README.md), whose server is killed KILLS times while they work on JOBS jobs:
# make clients KILLS=20 JOBS=2000, or a part of them: ARGS="-k celery". Their packages are installed below $(TARGET).
JOBS ?= 400
KILLS ?= 5
CLIENTS := $(abspath $(TARGET))/clients
clients:
	@tests/clients/install $(CLIENTS)
	@tests/clients/build $(CLIENTS) $(TARGET)
	@$(if $(PERDURA_SERVER),,$(PROGRAMS))
	@PERDURA_SERVER=$(abspath $(or $(PERDURA_SERVER),$(TARGET)/debug/perdura-server)) JOBS=$(JOBS) KILLS=$(KILLS) \
		CLIENTS_BUILT=$(CLIENTS) NODE_PATH=$(CLIENTS)/node_modules PYTHONDONTWRITEBYTECODE=1 $(CLIENTS)/venv/bin/pytest tests/clients $(ARGS)

# Redis's own test suite (of Debian's source package) against both backends and redis-server, or some units of it:
# make compat UNITS="hash set". RENEW=1 rewrites the list of cases that are left out.
compat: packages
	@for program in tclsh dpkg-source openssl; do command -v $$program >/dev/null || exec .ci/packages tcl dpkg-dev openssl; done
	@echo 'exit [catch {package require tls}]' | tclsh || .ci/packages tcl-tls
	@$(if $(RENEW),COMPAT_RENEW=1) cargo test --quiet --workspace --test compat -- $(UNITS)

# Simulated power losses at every fence and between, for MINUTES minutes: make crash MINUTES=10
# MUTANT=k disables fault point k of the protocol: a violation must be found. LOG=FILE adds the figures to a file. BUILD= builds
# as for tests: the build is faster, the search slower.
BUILD ?= --release
# The workspace is named, so that what its tests were compiled with serves here too.
CRASH := cargo build $(BUILD) --quiet --workspace --example crash && $(TARGET)/$(if $(BUILD),release,debug)/examples/crash
crash:
	@$(CRASH) --minutes $(MINUTES) $(if $(LOG),--log $(LOG))

# What miri and the sanitizer need: parts of a nightly toolchain.
NIGHTLY := cargo +nightly
nightly:
	@test "$$(rustup +nightly component list --installed 2>/dev/null | grep -c -e ^miri- -e ^rust-src)" = 2 || \
		rustup toolchain install nightly --profile minimal --component miri --component rust-src

# Undefined behaviour in what runs without system calls, by an interpreter; another part by
# make miri TESTS="-p perdura-structures --test it list::". Random tests draw few cases, since it is slow; powers
# of two are exact, as on a processor.
TESTS ?= --package perdura-rdb --package perdura-resp --package perdura-structures --lib
# Whole structures over the store of their tests, with short histories.
STRUCTURES ?= dict::a_table_is dict::what_a index::an_empty list::a_list_is reclaim::a_queue_that \
	sorted_set::a_sorted_set stream::a_stream_is times::a_table times::what_a tree::a_sorted_tree
miri: export MIRIFLAGS := -Zmiri-disable-isolation -Zmiri-deterministic-floats
miri: export PROPTEST_CASES := 4
miri: nightly
	$(NIGHTLY) miri test --target-dir $(TARGET)/miri $(TESTS)
	$(if $(filter file,$(origin TESTS)),$(NIGHTLY) miri test --target-dir $(TARGET)/miri \
		--package perdura-structures --test it -- $(STRUCTURES))

# Data races, found by a sanitizer while tests with several threads run, and servers under load;
# what it finds is printed at the end. It does not see what instructions in `asm!` do: flushes,
# copies past the cache, unlocked reads. System calls go through libc, so that it knows which memory
# is mapped. Left out are two tests that bound times, and one that reserves more addresses than it
# leaves. .ci/tsan.txt gives the reason of each report that is no race.
TSAN ?= --package perdura-pmem --package perdura-heap --package perdura-aof --package perdura
TSAN_CARGO = -Z build-std --target $(HOST) --target-dir $(TARGET)/tsan
TSAN_SERVER = $(TARGET)/tsan/$(HOST)/debug/perdura-server
TSAN_REPORT := $(abspath $(TARGET))/tsan/report
tsan: export RUSTFLAGS := -Z sanitizer=thread --cfg rustix_use_libc
tsan: export TSAN_OPTIONS := log_path=$(TSAN_REPORT) suppressions=$(CURDIR)/.ci/tsan.txt
tsan: nightly packages
	@rm -f $(TSAN_REPORT).*
	$(NIGHTLY) build $(TSAN_CARGO) --package perdura-server
	.ci/load $(TSAN_SERVER) || touch $(TSAN_REPORT).failed
	$(NIGHTLY) test $(TSAN_CARGO) --no-fail-fast $(TSAN) --lib --tests -- \
		--skip by_their_place --skip a_full_file_system_is_an_error || touch $(TSAN_REPORT).failed
	@! ls $(TSAN_REPORT).* 2>/dev/null || { cat $(TSAN_REPORT).*; exit 1; }

# Another processor, by an emulator: all compiles for it, and the crates that know the processor are
# tested. Left out is what the emulator cannot do: it accepts MAP_SYNC for any file, and takes memory
# for each page of reserved addresses.
ARM := aarch64-unknown-linux-gnu
aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER := aarch64-linux-gnu-gcc
aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER := qemu-aarch64 -L /usr/aarch64-linux-gnu
aarch64: export QEMU_CPU := cortex-a72
aarch64:
	@for program in aarch64-linux-gnu-gcc qemu-aarch64; do \
		command -v $$program >/dev/null || \
			exec .ci/packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user; \
	done
	@rustup target list --installed | grep -q -x $(ARM) || rustup target add $(ARM)
	cargo check --quiet --workspace --target $(ARM)
	cargo test --quiet --target $(ARM) --package perdura-pmem --lib --test it -- \
		--skip domains:: --skip growth:: --skip a_reservation_is_aligned_and_costs_no_memory
	cargo test --quiet --target $(ARM) --package perdura-heap --lib --test it -- \
		--skip many_blocks:: --skip media:: --skip space::

# What a release consists of, in $(DIST): static programs for Linux on this processor, as an archive and as a Debian
# package, and what deploy/Containerfile builds an image from. They are linked with glibc, whose allocator is the one that is
# measured; musl's is slower.
DIST := $(TARGET)/dist
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
ARCHIVE = perdura-$(VERSION)-$(HOST)
BUILT = $(TARGET)/$(HOST)/release
release: export RUSTFLAGS := -C target-feature=+crt-static -C strip=debuginfo
release:
	@cargo deb --version >/dev/null || { echo "it needs: cargo install --locked cargo-deb"; exit 1; }
	cargo build --release --locked --package perdura-server --package perdura-cli --target $(HOST)
	@rm -rf $(DIST) && mkdir -p $(DIST)/$(ARCHIVE) $(DIST)/image/data
	@cp $(BUILT)/perdura-server $(BUILT)/perdura $(DIST)/image
	@cp $(BUILT)/perdura-server $(BUILT)/perdura README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT \
		deploy/perdura.conf deploy/perdura.service deploy/pmem.md docs/configuration.md docs/operating.md $(DIST)/$(ARCHIVE)
	tar -C $(DIST) --owner=0 --group=0 --sort=name -czf $(DIST)/$(ARCHIVE).tar.gz $(ARCHIVE)
	cargo deb --package perdura-server --target $(HOST) --no-build --no-strip --output $(DIST)/
	@cd $(DIST) && sha256sum *.tar.gz *.deb >SHA256SUMS && cat SHA256SUMS

# The container image of what `make release` made, built and used: make image ENGINE="podman --runtime runc" RUN="--ulimit nofile=1024"
image:
	@IMAGE="$(or $(IMAGE),perdura)" ENGINE="$(or $(ENGINE),docker)" RUN="$(RUN)" deploy/check-image

# The Debian package of what `make release` made, installed, used and removed; as root, on a machine to throw away that systemd booted.
check-package:
	@CARGO_TARGET_DIR=$(abspath $(TARGET)) deploy/check-package

# The crates that the library consists of, packed as they would be published, in the order of their dependencies. VERIFY=1 compiles each from
# its package; ARGS=--allow-dirty packs what is not committed.
LIBRARY := perdura-pmem perdura-heap perdura-structures perdura-keyspace perdura-resp perdura
crates:
	cargo package --quiet --locked $(if $(VERIFY),,--no-verify) $(addprefix --package ,$(LIBRARY)) $(ARGS)

# The library's interface against the newest tag, or main while there is none: nothing is published to compare with.
BASELINE = $(shell git describe --tags --abbrev=0 --match 'v*' origin/main 2>/dev/null || echo origin/main)
semver:
	@cargo semver-checks --version || { echo "it needs: cargo install --locked cargo-semver-checks"; exit 1; }
	cargo semver-checks --package perdura --baseline-rev $(BASELINE)

# The module for Python: built, imported and tested with the python3 that is installed. `maturin build --release` in its folder makes a wheel.
PYTHON_MODULE := --manifest-path crates/python/Cargo.toml --target-dir $(TARGET)/python
python:
	@command -v python3 >/dev/null || .ci/packages python3
	cargo build --quiet --locked $(PYTHON_MODULE)
	python3 crates/python/tests/module.py $(TARGET)/python/debug/libperdura_python.so

# Licences, sources and what may depend on what, by deny.toml. ADVISORIES=1 asks for known
# vulnerabilities too, over the network.
deny:
	@cargo deny --version || { echo "it needs: cargo install --locked cargo-deny --version 0.20.2"; exit 1; }
	cargo deny --locked --workspace --all-features check licenses bans sources $(if $(ADVISORIES),advisories)

# Disables each fault point in turn, for up to EACH minutes: each must be caught. ONE_IN=12 takes a sample, another one each day.
# AREA=acl, AREA=scripts or AREA=dumps makes small mistakes in the code of that area instead (tests/mutate).
ONE_IN ?= 1
EACH ?= 3
mutate:
	@$(if $(AREA),tests/mutate $(AREA) $(ONE_IN),$(CRASH) --mutate --minutes $(EACH) --one-in $(ONE_IN) --offset $$(date +%j) $(if $(LOG),--log $(LOG)))

# Ways to persist, compared with each other and with redis-server: half an hour, and then target/bench/report.html. QUICK=1 takes
# three minutes, FULL=1 hours; MEDIA=1 takes five minutes, for pools on emulated media only, with and without a read cache, and
# reports in target/bench-media. Nothing else should run meanwhile. ARGS takes further options of `perdura-bench compare`:
# make bench ARGS="--dax /mnt/pmem --second /mnt/ssd --peer redis8=/opt/redis8/redis-server,valkey9=/usr/bin/valkey-server"
EMULATED := --media-server $(TARGET)/emulate-media/release/perdura-server
ALL_MEDIA := --full --media optane,nvdimm-n,cxl --read-cache 64mb $(EMULATED)
MEDIA_ALONE := --systems perdura-pmem --workloads throughput-0,throughput-30,ycsb-b,ycsb-c --recovery none --no-device \
	--rounds 5 --seconds 1 --media optane,cxl --read-cache 24mb $(EMULATED)
bench:
	@command -v redis-server >/dev/null || .ci/packages redis-server || echo "redis-server is left out"
	@cargo build --release --package perdura-server --package perdura-bench
	@$(if $(FULL)$(MEDIA),cargo build --release --package perdura-server --features emulate-media --target-dir $(TARGET)/emulate-media)
	@$(TARGET)/release/perdura-bench compare --out $(if $(MEDIA),target/bench-media,target/bench) \
		$(if $(QUICK),--quick) $(if $(FULL),$(ALL_MEDIA)) $(if $(MEDIA),$(MEDIA_ALONE)) $(ARGS)

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

ci:
	.ci/run
