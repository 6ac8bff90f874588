#!/bin/sh
# Instructions per parsed command under callgrind: the difference of two runs, so that start and end do not count.
set -eu
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "valgrind is missing: apt-get install valgrind" >&2; exit 1; }
program=$(cargo bench --bench parser --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"name":"parser".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
[ -n "$program" ] || { echo "cargo bench --bench parser --no-run gave no program" >&2; exit 1; }
instructions() {
    PARSER_ROUNDS=$1 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" 2>&1 >/dev/null |
        sed -n 's/.*Collected : //p'
}
few=$(instructions 100)
many=$(instructions 1100)
echo "$(((many - few) / 64000)) instructions per SET of three arguments"
