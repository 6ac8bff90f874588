"""Time from exec to the first answered read after kill -9, by number of keys.

Keys of 16 bytes with values of 84; or, by --what, small hashes of five fields, or all elements in one hash or one sorted
set. The server is filled, killed, and started again on what it left; a client connects until a read of what was written
last is answered. The logs and pools are in the page cache: what a cold medium adds
is not measured. The best of --rounds would flatter, so the median is shown.

With --load it is killed while redis-benchmark sets random keys anew, so that its logs are as full as they get; what
a pool replays then stands beside the time.
"""

import argparse
import socket
import statistics
import subprocess
import sys
import time

from servers import Results, Server, chosen, command, common_arguments, machine, print_table

DEFAULT = [
    "perdura pmem process", "perdura aof everysec", "redis everysec, no RDB base",
]
# What is written as element n, and what asks for it; the answer is a bulk string of so many bytes (--size where none are named).
WHAT = {
    "strings": (None, lambda n: ("GET", "key:%012d" % n), None),
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


def kill(server, keys, arguments):
    """Ends the server; with --load in the midst of writes."""
    if not arguments.load:
        return server.kill()
    writer = subprocess.Popen(
        ["redis-benchmark", "-p", str(server.port), "-t", "set", "-n", "1000000000", "-c", "50"]
        + ["-d", str(arguments.size), "-r", str(keys)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(arguments.load)
        server.kill()
    finally:
        writer.kill()
        writer.wait()


def measure(name, keys, arguments):
    """All rounds of one server with so many keys."""
    server = Server(name, arguments.disk)
    make, question, length = WHAT[arguments.what]
    length = length or arguments.size
    times, words = [], []
    try:
        if make:
            server.send(make, keys)
        else:
            server.fill(keys, arguments.size)
        held = server.ask("DBSIZE")
        # What everysec has not synced is still written: the end of the process takes nothing away.
        for _ in range(arguments.rounds):
            kill(server, keys, arguments)
            times.append(first_answer(server, question(keys - 1), length))
            words.append(int(server.info("persistence").get("recovery_words", 0)))
            count = server.ask("DBSIZE")
            if count != held:
                raise SystemExit(f"{name} came back with {count!r} keys of {held!r}")
    finally:
        server.remove()
    return times, words


def main():
    """Measures what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    common_arguments(parser, "recovery.tsv")
    parser.add_argument("--keys", default="10000,1000000,20000000")
    parser.add_argument("--what", choices=WHAT, default="strings")
    parser.add_argument("--size", type=int, default=84, help="bytes of a string")
    parser.add_argument("--load", type=float, default=0, help="seconds of SETs before the kill (strings only)")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.load and arguments.what != "strings":
        parser.error("--load sets strings")
    names = chosen(arguments, DEFAULT)
    print("Command line: benches/recovery.sh", *sys.argv[1:])
    print(*machine(arguments.disk), sep="\n", flush=True)
    results = Results(arguments.tsv, ["system", "keys", "seconds", "words"])
    counts = [int(count) for count in arguments.keys.split(",")]
    rows = []
    for name in names:
        row = [name]
        for keys in counts:
            print(f"{name}, {keys} keys", file=sys.stderr, flush=True)
            times, words = measure(name, keys, arguments)
            for seconds, replayed in zip(times, words):
                results.add(name, keys, f"{seconds:.6f}", replayed)
            cell = f"{statistics.median(times) * 1000:.1f} ms"
            most = max(words)
            row.append(f"{cell}, {most} words at most" if arguments.load and most else cell)
        rows.append(row)
    print(f"\n### From exec to the first answered read after kill -9, {arguments.what}, median of {arguments.rounds}\n")
    print_table([""] + [f"{count}" for count in counts], rows)
    print(f"\nraw figures: {results.path}")


main()
