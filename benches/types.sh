#!/bin/sh
# Commands on lists, hashes, sets, sorted sets and streams: requests a second and bytes per element, beside redis-server.
# Needs redis-server, redis-benchmark, taskset and python3; --help shows the options.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
for program in redis-server redis-benchmark taskset python3; do
    command -v "$program" >/dev/null || { echo "$program is missing (Debian: redis-server redis-tools util-linux python3)" >&2; exit 1; }
done
if [ -z "${PERDURA_SERVER:-}" ]; then
    (cd "$root" && cargo build --release --quiet --package perdura-server)
    PERDURA_SERVER=${CARGO_TARGET_DIR:-$root/target}/release/perdura-server
    export PERDURA_SERVER
fi
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$root/benches/measure/types.py" "$@"
