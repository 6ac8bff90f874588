#!/bin/sh
# Instructions per request of scripts under callgrind, in the engine: the difference of two runs, so that start and end do not count.
set -eu
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "valgrind is missing: apt-get install valgrind" >&2; exit 1; }
program=$(cargo bench --bench scripts --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"name":"scripts".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
[ -n "$program" ] || { echo "cargo bench --bench scripts --no-run gave no program" >&2; exit 1; }
instructions() {
    SCRIPT_LOAD=$1 SCRIPT_ROUNDS=$2 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" 2>&1 >/dev/null |
        sed -n 's/.*Collected : //p'
}
for load in get set script-nothing script-get script-set; do
    few=$(instructions "$load" 200)
    many=$(instructions "$load" 2200)
    echo "$load: $(((many - few) / 2000))"
done
for load in transaction-of-1000 script-1000-get script-1000-same script-1000-set; do
    few=$(instructions "$load" 20)
    many=$(instructions "$load" 50)
    echo "$load: $(((many - few) / 30000)) for each of the 1000 commands"
done
