"""Throughput, CPU time and latency of SET and GET, beside redis-server.

Each measurement has a server of its own, fresh and filled, on one core, and redis-benchmark on another; only the
latency of one client is taken with both on one core, since what separate cores show is how long the machine takes to
wake one up. Systems take turns, round by round, so that a slow minute of the machine hurts all of them. Medians, and the
spread from the lowest to the highest in percent of the median; ratios are taken within each round.
"""

import argparse
import csv
import io
import statistics
import subprocess
import sys

from servers import Results, Server, chosen, common_arguments, machine, print_ratios, print_table

DEFAULT = [
    "redis none", "redis everysec", "redis always", "perdura volatile", "perdura pmem emulated",
    "perdura aof everysec", "perdura aof always",
]
# What is compared with what, in runs of the same round.
PAIRS = [
    ("perdura volatile", "redis none"),
    ("perdura pmem emulated", "perdura volatile"),
    ("perdura pmem emulated", "redis always"),
    ("perdura aof always", "redis always"),
    ("perdura aof everysec", "redis everysec"),
]
KEYS = {32: 100_000, 4096: 20_000}
# Operations of one run, about a second or two on a machine of today.
OPERATIONS = {(32, 1): 150_000, (32, 16): 1_000_000, (4096, 1): 100_000, (4096, 16): 250_000}
LATENCY_OPERATIONS = 50_000


def benchmark(server, test, size, pipeline, clients, operations, core):
    """One run of redis-benchmark: requests a second, p50 and p99 in ms, CPU microseconds of the server per request."""
    before = server.cpu()
    done = subprocess.run(
        ["taskset", "-c", str(core), "redis-benchmark", "-p", str(server.port), "-t", test,
         "-n", str(operations), "-c", str(clients), "-P", str(pipeline), "-d", str(size),
         "-r", str(KEYS[size]), "--csv"],
        capture_output=True, text=True, check=True,
    )
    cpu = (server.cpu() - before) / operations * 1e6
    row = list(csv.DictReader(io.StringIO(done.stdout)))[-1]
    return float(row["rps"]), float(row["p50_latency_ms"]), float(row["p99_latency_ms"]), cpu


def take_turns(names, arguments, one):
    """Runs `one` for each system in turn, round by round."""
    for number in range(arguments.rounds):
        for name in names[number % len(names):] + names[:number % len(names)]:
            server = Server(name, arguments.disk, arguments.server_core)
            try:
                one(name, server)
            finally:
                server.remove()
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)


def spread(values):
    """From the lowest to the highest, in percent of the median."""
    return (max(values) - min(values)) / statistics.median(values) * 100


def throughput(names, arguments, results, size, pipeline):
    """50 clients."""
    found = {name: {"set": [], "get": []} for name in names}
    operations = max(1000, int(OPERATIONS[size, pipeline] * arguments.scale))

    def one(name, server):
        server.fill(KEYS[size], size)
        for test in ("set", "get"):
            got = benchmark(server, test, size, pipeline, 50, operations, arguments.client_core)
            found[name][test].append(got)
            results.add("throughput", name, test, size, pipeline, 50, *got)

    take_turns(names, arguments, one)
    print(f"\n### {size} bytes, pipeline {pipeline}, 50 clients, {operations} operations a run\n")
    head = ["", "SET/s", "spread %", "us CPU", "p99 ms", "GET/s", "spread %", "us CPU", "p99 ms"]
    rows = []
    for name in names:
        row = [name]
        for test in ("set", "get"):
            rate, _, p99, cpu = zip(*found[name][test])
            row += [f"{statistics.median(rate):.0f}", f"{spread(rate):.0f}"]
            row += [f"{statistics.median(cpu):.2f}", f"{statistics.median(p99):.3f}"]
        rows.append(row)
    print_table(head, rows)
    for test in ("set", "get"):
        rates = {name: [row[0] for row in found[name][test]] for name in names}
        cpu = {name: [row[3] for row in found[name][test]] for name in names}
        pairs = PAIRS if test == "set" else PAIRS[:1]
        print_ratios(f"{test.upper()} a second", pairs, rates)
        print_ratios(f"CPU time of a {test.upper()}", pairs, cpu)


def latency(names, arguments, results, size):
    """One client, one command at a time, on the server's core."""
    found = {name: [] for name in names}
    operations = max(1000, int(LATENCY_OPERATIONS * arguments.scale))

    def one(name, server):
        server.fill(KEYS[size], size)
        got = benchmark(server, "set", size, 1, 1, operations, arguments.server_core)
        found[name].append(got)
        results.add("latency", name, "set", size, 1, 1, *got)

    take_turns(names, arguments, one)
    print(f"\n### Latency of SET of {size} bytes, one client, both on one core, {operations} operations\n")
    rows = []
    for name in names:
        rate, p50, p99, cpu = zip(*found[name])
        middle = statistics.median
        rows.append([name, f"{middle(p50) * 1000:.0f}", f"{middle(p99) * 1000:.0f}",
                     f"{middle(rate):.0f}", f"{spread(rate):.0f}", f"{middle(cpu):.2f}"])
    print_table(["", "p50 us", "p99 us", "SET/s", "spread %", "us CPU"], rows)
    for column, what in ((1, "p50"), (2, "p99")):
        print_ratios(what, PAIRS, {name: [row[column] for row in found[name]] for name in names})


def main():
    """Measures what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    common_arguments(parser, "throughput.tsv")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="operations of a run, times this")
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--sizes", default="32,4096")
    parser.add_argument("--pipelines", default="1,16")
    parser.add_argument("--no-latency", action="store_true")
    arguments = parser.parse_args()
    names = chosen(arguments, DEFAULT)
    print("Command line: benches/throughput.sh", *sys.argv[1:])
    print(*machine(arguments.disk), sep="\n", flush=True)
    head = ["kind", "system", "test", "bytes", "pipeline", "clients"]
    results = Results(arguments.tsv, head + ["rps", "p50_ms", "p99_ms", "cpu_us"])
    sizes = [int(size) for size in arguments.sizes.split(",") if size]
    for size in sizes:
        for pipeline in arguments.pipelines.split(","):
            if pipeline:
                throughput(names, arguments, results, size, int(pipeline))
    if not arguments.no_latency:
        for size in sizes:
            latency(names, arguments, results, size)
    print(f"\nraw figures: {results.path}")


main()
