"""What a request costs the generator that sends it, in CPU time: ours beside others, against the same server.

On a small machine the generator takes CPU time that the server would need, so a cheap one measures more of the server.
redis-server answers on one core, generators take turns on another with one thread. CPU time counts to the end of the
process, its start included. Keys are there: what is read comes back at its full size.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys

from servers import ROOT, Results, Server, common_arguments, first_line, machine, print_table

BENCH = os.environ.get("PERDURA_BENCH", os.path.join(ROOT, "target/release/perdura-bench"))
CLIENTS = 50
KEYS = 10_000


def ours(port, write, size, pipeline, requests):
    """The options that perdura-bench and memtier_benchmark have in common."""
    return [
        "-s", "127.0.0.1", "-p", port, "-t", 1, "-c", CLIENTS, "-n", requests // CLIENTS, "-d", size,
        "--pipeline", pipeline, "--ratio", "1:0" if write else "0:1", "--key-prefix", "key:",
        "--key-minimum", 10 ** 11, "--key-maximum", 10 ** 11 + KEYS - 1, "--distinct-client-seed",
        "--hide-histogram",
    ]


def redis(port, write, size, pipeline, requests):
    """The same for redis-benchmark, whose keys are twelve digits."""
    key = "key:__rand_int__"
    return [
        "-p", port, "-c", CLIENTS, "-n", requests, "-P", pipeline, "-r", KEYS, "-q",
    ] + (["SET", key, "x" * size] if write else ["GET", key])


GENERATORS = {
    "perdura-bench load": lambda *what: [BENCH, "load"] + ours(*what),
    "redis-benchmark": lambda *what: ["redis-benchmark"] + redis(*what),
    "memtier_benchmark": lambda *what: ["memtier_benchmark"] + ours(*what),
}


def cpu(command):
    """CPU seconds of a command: user, system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def measure(names, arguments, results, write, size, pipeline):
    """All generators in turn, round by round: a row for each."""
    found = {name: [] for name in names}
    server = Server("redis none", arguments.disk, arguments.server_core)
    try:
        server.fill(KEYS, size)
        server.fill(KEYS, size, first=10 ** 11)
        requests = int(arguments.requests * (4 if pipeline > 1 else 1))
        for number in range(arguments.rounds):
            for name in names[number % len(names):] + names[:number % len(names)]:
                what = GENERATORS[name](server.port, write, size, pipeline, requests)
                user, system = cpu(["taskset", "-c", arguments.client_core] + what)
                each = (user / requests * 1e6, system / requests * 1e6)
                found[name].append(each)
                results.add(name, "SET" if write else "GET", size, pipeline, *each)
    finally:
        server.remove()
    rows = []
    for name in names:
        user, system = zip(*found[name])
        both = [u + s for u, s in found[name]]
        ratios = [b / sum(o) for b, o in zip(both, found[names[0]])]
        rows.append([
            name, f"{statistics.median(both):.2f}", f"{statistics.median(user):.2f}",
            f"{statistics.median(system):.2f}",
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        ])
    print(f"\n### {'SET' if write else 'GET'} of {size} bytes, pipeline {pipeline}, {CLIENTS} clients\n")
    print_table(["", "us CPU", "user", "system", "to ours"], rows)


def main():
    """Measures what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    common_arguments(parser, "generators.tsv")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=200_000, help="of a run; four times that when pipelined")
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--sizes", default="32,4096")
    parser.add_argument("--pipelines", default="1,16")
    arguments = parser.parse_args()
    os.makedirs(arguments.disk, exist_ok=True)
    print("Command line: benches/generators.sh", *sys.argv[1:])
    print(*machine(arguments.disk), sep="\n")
    names = [name for name in GENERATORS if name.startswith("perdura") or shutil.which(name)]
    if "memtier_benchmark" in names:
        print(first_line("memtier_benchmark", "--version"), flush=True)
    results = Results(arguments.tsv, ["generator", "test", "bytes", "pipeline", "user_us", "system_us"])
    for size in arguments.sizes.split(","):
        for pipeline in arguments.pipelines.split(","):
            for write in (True, False):
                measure(names, arguments, results, write, int(size), int(pipeline))
    print(f"\nraw figures: {results.path}")


main()
