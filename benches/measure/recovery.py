"""Time from exec to the first answered GET after kill -9, by number of keys.

Keys of 16 bytes with values of 84. The server is filled, killed, and started again on what it left; a client connects
until a GET of the last key is answered with its value. The logs and pools are in the page cache: what a cold medium adds
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


def first_answer(server, key):
    """Seconds from exec until the key's value was read."""
    start = time.monotonic()
    server.start()
    while True:
        try:
            with socket.create_connection(("127.0.0.1", server.port), timeout=600) as peer:
                reply = peer.makefile("rb")
                while True:
                    peer.sendall(command("GET", key))
                    line = reply.readline()
                    if line == b"$%d\r\n" % VALUE and len(reply.read(VALUE + 2)) == VALUE + 2:
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
    times = []
    try:
        server.fill(keys, VALUE)
        # What everysec has not synced is still written: the end of the process takes nothing away.
        for _ in range(arguments.rounds):
            server.kill()
            times.append(first_answer(server, "key:%012d" % (keys - 1)))
            count = server.ask("DBSIZE")
            if count != b":%d" % keys:
                raise SystemExit(f"{name} came back with {count!r} keys of {keys}")
    finally:
        server.remove()
    return times


def main():
    """Measures what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    common_arguments(parser, "recovery.tsv")
    parser.add_argument("--keys", default="10000,1000000,20000000")
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
    print(f"\n### From exec to the first answered GET after kill -9, median of {arguments.rounds}\n")
    print_table([""] + [f"{count} keys" for count in counts], rows)
    print(f"\nraw figures: {results.path}")


main()
