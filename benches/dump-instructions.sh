#!/bin/sh
# Instructions per key of loading and saving dumps under callgrind, in the engine, by one thread: the difference of two runs, so that
# making the keys does not count.
set -eu
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "valgrind is missing: apt-get install valgrind" >&2; exit 1; }
program=$(cargo bench --bench dumps --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"name":"dumps".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
[ -n "$program" ] || { echo "cargo bench --bench dumps --no-run gave no program" >&2; exit 1; }
instructions() {
    DUMP_LOAD=$1 DUMP_ROUNDS=$2 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" 2>&1 >/dev/null |
        sed -n 's/.*Collected : //p'
}
for kind in strings hashes lists sets sorted-sets streams; do
    none=$(instructions "load-$kind" 0)
    for what in load save; do
        once=$(instructions "$what-$kind" 1)
        echo "$what-$kind: $(((once - none) / 60000))"
    done
done
