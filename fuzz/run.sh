#!/bin/sh
# Runs every fuzz target for some seconds: fuzz/run.sh [SECONDS] [TARGET...]
# It fails when a target found something; exit 0 otherwise, also where there is no nightly toolchain that builds the targets,
# and says so. That their bodies compile is shown by the test that runs them over the corpus.
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- requests pool journal aof rdb restore script

if ! rustup run nightly rustc --version >/dev/null 2>&1; then
    rustup toolchain install nightly --profile minimal >/dev/null 2>&1 || true
fi
if ! rustup run nightly rustc --version >/dev/null 2>&1; then
    echo "no nightly toolchain: skipped"
    exit 0
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    if ! cargo install cargo-fuzz --locked; then
        echo "cargo-fuzz cannot be installed: skipped"
        exit 0
    fi
fi
if ! cargo +nightly fuzz build; then
    echo "the targets cannot be built with $(rustup run nightly rustc --version): skipped"
    exit 0
fi

# Each keeps one core busy.
printf '%s\n' "$@" | xargs -n 1 -P "$(nproc)" ./one.sh "$seconds"
