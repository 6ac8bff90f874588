"""Memory per key: keys of 16 bytes with values of 32.

What the server itself counts (`used_memory`, for Perdura the bytes taken from its heap), less what it counts when empty;
beside it what the process and its pool take of the machine.
"""

import argparse
import os
import sys

from servers import Results, Server, chosen, common_arguments, machine, print_table

DEFAULT = ["perdura volatile", "perdura pmem process", "redis none"]
VALUE = 32


def resident(server):
    """Bytes of the process that no file holds, and of the files in its directory, a pool's pages among them."""
    with open(f"/proc/{server.process.pid}/smaps_rollup") as rollup:
        lines = (line.split() for line in rollup)
        anonymous = sum(int(line[1]) for line in lines if line[0] == "Anonymous:")
    files = sum(
        os.stat(os.path.join(folder, name)).st_blocks * 512
        for folder, _, names in os.walk(server.folder) for name in names
    )
    return anonymous * 1024 + files


def main():
    """Measures what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    common_arguments(parser, "memory.tsv")
    parser.add_argument("--keys", default="1000000,10000000")
    arguments = parser.parse_args()
    names = chosen(arguments, DEFAULT)
    print("Command line: benches/memory.sh", *sys.argv[1:])
    print(*machine(arguments.disk), sep="\n", flush=True)
    results = Results(arguments.tsv, ["system", "keys", "used_per_key", "machine_per_key"])
    counts = sorted(int(count) for count in arguments.keys.split(","))
    rows = []
    for name in names:
        server = Server(name, arguments.disk)
        row, filled = [name], 0
        try:
            empty = int(server.info("memory")["used_memory"])
            before = resident(server)
            for keys in counts:
                print(f"{name}, {keys} keys", file=sys.stderr, flush=True)
                server.fill(keys - filled, VALUE, filled)
                filled = keys
                used = (int(server.info("memory")["used_memory"]) - empty) / keys
                whole = (resident(server) - before) / keys
                results.add(name, keys, f"{used:.2f}", f"{whole:.2f}")
                row += [f"{used:.1f}", f"{whole:.1f}"]
        finally:
            server.remove()
        rows.append(row)
    print("\n### Bytes per key of 16 bytes with a value of 32\n")
    head = [""]
    for keys in counts:
        head += [f"{keys} keys: heap", "of the machine"]
    print_table(head, rows)
    print(f"\nraw figures: {results.path}")


main()
