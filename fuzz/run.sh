#!/bin/sh
# Runs every fuzz target for some seconds: fuzz/run.sh [SECONDS] [TARGET...]
# Exit 1 when a target found something; 0 otherwise, also where there is no nightly toolchain that builds the targets,
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

found=0
for target in "$@"; do
    # New inputs go into a directory of their own; the committed corpus is only read.
    mkdir -p "target/corpus/$target"
    echo "fuzzing $target for $seconds s"
    # Threads keep lists that grow, which looks like a leak: a search for leaks takes longer than opening a small pool,
    # and would follow each of the first thousand inputs.
    case $target in
    pool | journal) leaks=0 ;;
    *) leaks=1 ;;
    esac
    cargo +nightly fuzz run "$target" "target/corpus/$target" "corpus/$target" -- \
        -max_total_time="$seconds" -timeout=10 -max_len=16384 -print_final_stats=1 -detect_leaks=$leaks || found=1
done
exit $found
