#!/bin/sh
# CPU time per request of generators of load: perdura-bench load, redis-benchmark and, where it is installed,
# memtier_benchmark, against the same redis-server: medians of alternating runs. --help shows the options.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
for program in redis-server redis-benchmark taskset python3; do
    command -v "$program" >/dev/null || { echo "$program is missing (Debian: redis-server redis-tools util-linux python3)" >&2; exit 1; }
done
if [ -z "${PERDURA_BENCH:-}" ]; then
    (cd "$root" && cargo build --release --quiet --package perdura-bench)
    PERDURA_BENCH=${CARGO_TARGET_DIR:-$root/target}/release/perdura-bench
    export PERDURA_BENCH
fi
# The program of ours whose version and commit are printed.
export PERDURA_SERVER="$PERDURA_BENCH"
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$root/benches/measure/generators.py" "$@"
