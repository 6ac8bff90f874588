#!/bin/bash
# The first table of README.md: what `make run` gives, a pool with a journal on a disk, compared with Valkey and Redis with their
# append-only files on the same disk.
#
#   benches/quick-start.sh [ROW ...]        rows: set set16 get16 set-always memory written restart lost
#   ROUNDS=5 KEYS=2000000 PERDURA=... VALKEY=valkey-server REDIS=redis-server benches/quick-start.sh
#
# It prints, for each row, the median of each server with the lowest and the highest of its rounds. In each round the servers
# take turns. Each has a fresh directory below $DIR (/var/tmp) and the first core, the generator (redis-benchmark for all) has the
# second: nothing else should run. Keys have 16 bytes, values 32, there are 50 clients; `appendfsync everysec` unless said otherwise.
# An empty VALKEY or REDIS leaves that out.
#
#   set set16 get16   requests a second, without a pipeline and with one of 16
#   set-always        SETs a second with `appendfsync always`
#   memory            bytes of used_memory for each of KEYS keys
#   written           bytes that the server wrote to the disk for each of KEYS updates of random keys, pipelined
#   restart           milliseconds from a start after kill -9, with KEYS keys, to the first PONG
#   lost              acknowledged writes that are missing after kill -9 under load
set -u
export LC_ALL=C
ROUNDS=${ROUNDS:-5} KEYS=${KEYS:-2000000} DIR=${DIR:-/var/tmp} PORT=${PORT:-21760}
PERDURA=${PERDURA-target/release/perdura-server} VALKEY=${VALKEY-valkey-server} REDIS=${REDIS-redis-server}
BENCHMARK=${BENCHMARK:-redis-benchmark} CLI=${CLI:-redis-cli}
SERVER="taskset -c 0" GENERATOR="taskset -c 1"
[ $# -gt 0 ] || set -- set set16 get16 set-always memory written restart lost
data=$(mktemp -d "$DIR/quick-start-XXXXXX") && pid=
trap '[ -z "$pid" ] || kill -9 $pid; rm -rf "$data"' EXIT

cli() { $CLI -p "$PORT" "$@"; }
# serve NAME POLICY [OPTION ...]: over the directory that is there, until it answers for its data.
serve() {
    local name=$1 policy=$2 program
    shift 2
    mkdir -p "$data/$name"
    case $name in
        perdura) program=("$PERDURA" --threads 1) ;;
        valkey) program=("$VALKEY" --appendonly yes --save "") ;;
        redis) program=("$REDIS" --appendonly yes --save "") ;;
    esac
    $SERVER "${program[@]}" --dir "$data/$name" --appendfsync "$policy" --port "$PORT" --bind 127.0.0.1 "$@" >"$data/log-$name" 2>&1 &
    pid=$!
    until answers; do
        kill -0 $pid 2>/dev/null || { cat "$data/log-$name" >&2; exit 1; }
        sleep 0.002
    done
}
answers() { [ "$(cli ping 2>/dev/null)" = PONG ]; }
end() { kill -9 $pid; wait $pid 2>/dev/null; pid=; rm -rf "${data:?}/$1"; }
# load OPTIONS: requests per second.
load() { $GENERATOR "$BENCHMARK" -p "$PORT" -c 50 -d 32 -r "$KEYS" --csv "$@" | tail -1 | cut -d'"' -f4; }
# Every key once: KEYS times SET of 16 + 32 bytes.
fill() { $GENERATOR awk -v n="$KEYS" 'BEGIN { v = "0123456789abcdef0123456789abcdef"; for (i = 0; i < n; i++) printf "SET %016d %s\r\n", i, v }' | cli --pipe >/dev/null; }
field() { cli info "$1" | tr -d '\r' | sed -n "s/^$2://p"; }
written() { sed -n 's/^write_bytes: //p' "/proc/$pid/io"; }

# measure ROW NAME: one figure.
measure() {
    case $1 in
        set-always) serve "$2" always ;;
        # A rewrite of the log would be written by another process.
        written) serve "$2" everysec --auto-aof-rewrite-percentage 0 ;;
        *) serve "$2" everysec ;;
    esac
    case $1 in
        set) load -t set -n 300000 ;;
        set16) load -t set -n 2000000 -P 16 ;;
        get16) fill; load -n 2000000 -P 16 GET 0000__rand_int__ ;;
        set-always) load -t set -n 50000 ;;
        memory)
            before=$(field memory used_memory); fill; after=$(field memory used_memory)
            awk -v a="$after" -v b="$before" -v n="$(cli dbsize)" 'BEGIN { print (a - b) / n }' ;;
        written)
            fill; sleep 3; before=$(written); load -n "$KEYS" -P 16 SET 0000__rand_int__ 0123456789abcdef0123456789ABCDEF >/dev/null; sleep 3
            awk -v a="$(written)" -v b="$before" -v n="$KEYS" 'BEGIN { print (a - b) / n }' ;;
        restart)
            fill; sleep 2; kill -9 $pid; wait $pid 2>/dev/null
            began=$(date +%s%N); serve "$2" everysec
            echo $((($(date +%s%N) - began) / 1000000)) ;;
        lost)
            # Whoever writes says how far it was answered.
            (i=0; exec 3<>"/dev/tcp/127.0.0.1/$PORT"
             while printf 'SET k %d\r\n' $((i + 1)) >&3 2>/dev/null && read -r -t 5 reply <&3 && [ "${reply%?}" = +OK ]; do
                 i=$((i + 1)); echo $i; done) >"$data/acknowledged" 2>/dev/null &
            writer=$!
            sleep 2; kill -9 $pid; wait $pid $writer 2>/dev/null; serve "$2" everysec
            missing=$(($(tail -1 "$data/acknowledged") - $(cli get k)))
            echo $((missing > 0 ? missing : 0)) ;;
    esac
    end "$2"
}

for row in "$@"; do
    for name in perdura valkey redis; do : >"$data/$name.figures"; done
    for ((round = 0; round < ROUNDS; round++)); do
        for name in perdura valkey redis; do
            case $name in valkey) [ -n "$VALKEY" ] || continue ;; redis) [ -n "$REDIS" ] || continue ;; esac
            measure "$row" $name >"$data/figure"
            cat "$data/figure" >>"$data/$name.figures"
        done
    done
    for name in perdura valkey redis; do
        [ -s "$data/$name.figures" ] && sort -n "$data/$name.figures" | awk -v row="$row" -v name="$name" \
            '{ a[NR] = $1 } END { m = NR % 2 ? a[(NR + 1) / 2] : (a[NR / 2] + a[NR / 2 + 1]) / 2; printf "%-11s %-8s %s (%s to %s; %d)\n", row, name, m, a[1], a[NR], NR }'
    done
done
