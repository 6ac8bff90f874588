"""Time from exec to the first answered read after kill -9, by number of keys.

Keys of 16 bytes with values of 84; or, by --what, small hashes of five fields, or all elements in one hash or one sorted
set. The server is filled, killed, and started again on what it left; a client connects until a read of what was written
last is answered. The logs and pools are in the page cache: what a cold medium adds
is not measured. The best of --rounds would flatter, so the median is shown.
"""

import argparse
import socket
import statistics
import sys
import time

from servers import Results, Server, chosen, command, common_arguments, machine, print_table

DEFAULT = [
    "perdura pmem process", "perdura aof everysec", "redis everysec, no RDB base",
]
VALUE = 84
# What is written as element n, and what asks for it; the answer is a bulk string of so many bytes.
WHAT = {
    "strings": (None, lambda n: ("GET", "key:%012d" % n), VALUE),
    "hashes": (
        lambda n: ["HSET", "key:%012d" % n] + [w for f in range(5) for w in (f"field{f}", "v" * 10)],
        lambda n: ("HGET", "key:%012d" % n, "field4"), 10,
    ),
    "hash": (
        lambda n: ("HSET", "key", "field:%012d" % n, "value:%012d" % n),
        lambda n: ("HGET", "key", "field:%012d" % n), 18,
    ),
    "zset": (lambda n: ("ZADD", "key", 10 ** 9 + n, "m:%012d" % n), lambda n: ("ZSCORE", "key", "m:%012d" % n), 10),
}


def first_answer(server, question, length):
    """Seconds from exec until the answer, of so many bytes, was read."""
    start = time.monotonic()
    server.start()
    while True:
        try:
            with socket.create_connection(("127.0.0.1", server.port), timeout=600) as peer:
                reply = peer.makefile("rb")
                while True:
                    peer.sendall(command(*question))
                    line = reply.readline()
                    if line == b"$%d\r\n" % length and len(reply.read(length + 2)) == length + 2:
                        return time.monotonic() - start
                    if not line.startswith(b"-LOADING"):
                        raise SystemExit(f"{server.name} answered {line!r} after its restart")
                    time.sleep(0.0005)
        except ConnectionError:
            if server.process.poll() is not None:
                with open(server.log, errors="replace") as log:
                    raise SystemExit(f"{server.name} did not come back:\n{log.read()[-2000:]}")
            time.sleep(0.0005)


def measure(name, keys, arguments):
    """All rounds of one server with so many keys."""
    server = Server(name, arguments.disk)
    make, question, length = WHAT[arguments.what]
    times = []
    try:
        if make:
            server.send(make, keys)
        else:
            server.fill(keys, VALUE)
        held = server.ask("DBSIZE")
        # What everysec has not synced is still written: the end of the process takes nothing away.
        for _ in range(arguments.rounds):
            server.kill()
            times.append(first_answer(server, question(keys - 1), length))
            count = server.ask("DBSIZE")
            if count != held:
                raise SystemExit(f"{name} came back with {count!r} keys of {held!r}")
    finally:
        server.remove()
    return times


def main():
    """Measures what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    common_arguments(parser, "recovery.tsv")
    parser.add_argument("--keys", default="10000,1000000,20000000")
    parser.add_argument("--what", choices=WHAT, default="strings")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    names = chosen(arguments, DEFAULT)
    print("Command line: benches/recovery.sh", *sys.argv[1:])
    print(*machine(arguments.disk), sep="\n", flush=True)
    results = Results(arguments.tsv, ["system", "keys", "seconds"])
    counts = [int(count) for count in arguments.keys.split(",")]
    rows = []
    for name in names:
        row = [name]
        for keys in counts:
            print(f"{name}, {keys} keys", file=sys.stderr, flush=True)
            times = measure(name, keys, arguments)
            for seconds in times:
                results.add(name, keys, f"{seconds:.6f}")
            row.append(f"{statistics.median(times) * 1000:.1f} ms")
        rows.append(row)
    print(f"\n### From exec to the first answered read after kill -9, {arguments.what}, median of {arguments.rounds}\n")
    print_table([""] + [f"{count}" for count in counts], rows)
    print(f"\nraw figures: {results.path}")


main()
