#!/bin/sh
# Runs one fuzz target, which is built, for some seconds, and shows what it said when it is done: fuzz/one.sh SECONDS TARGET
set -eu
cd "$(dirname "$0")"
seconds=$1 target=$2
# New inputs go into a directory of their own; the committed corpus is only read.
mkdir -p "target/corpus/$target"
# Threads keep lists that grow, which looks like a leak: a search for leaks takes longer than opening a small pool,
# and would follow each of the first thousand inputs.
case $target in
pool | journal) leaks=0 ;;
*) leaks=1 ;;
esac
found=0
cargo +nightly fuzz run "$target" "target/corpus/$target" "corpus/$target" -- \
    -max_total_time="$seconds" -timeout=10 -max_len=16384 -print_final_stats=1 -detect_leaks=$leaks \
    >"target/$target.log" 2>&1 || found=1
echo "fuzzing $target for $seconds s: exit $found"
# Without the dictionary that libFuzzer recommends.
grep -a -v '^".*# Uses' "target/$target.log" || true
exit $found
