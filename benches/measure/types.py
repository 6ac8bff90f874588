"""Commands on the data types beside redis-server: requests a second, CPU time, and bytes of memory per element.

The small part is redis-benchmark's own set of tests, on the keys that it uses. The large part asks sorted sets of
--members members, hashes of as many fields, and so on, for elements that are chosen at random. As in throughput.py
systems take turns on one core, the generator has another, and ratios are taken within each round.
"""

import argparse
import csv
import io
import statistics
import subprocess
import sys
import time

from servers import Results, Server, chosen, common_arguments, machine, print_ratios, print_table

DEFAULT = ["redis none", "perdura volatile", "perdura pmem emulated"]
PAIRS = [("perdura volatile", "redis none"), ("perdura pmem emulated", "redis none")]
CLIENTS = 50
# redis-benchmark's names of its tests; `lrange` is all of LRANGE_100 to LRANGE_600, which it fills by itself.
TESTS = ["lpush", "rpush", "lpop", "rpop", "sadd", "hset", "spop", "zadd", "zpopmin", "mset", "xadd", "lrange"]
# Tests that redis-benchmark 7.0 has not got yet, as its later versions make them.
SPELLED = {"xadd": ["XADD", "mystream", "*", "myfield", "xxx"]}
# Requests of one run at pipeline 1; those with long replies take a tenth, a pipeline takes five times that.
REQUESTS = 50_000
# What is filled beforehand, so that what pops finds something: as many as all runs of a round take.
FILL = {
    "lpop": lambda n: ("RPUSH", "mylist", "element:%012d" % n),
    "rpop": lambda n: ("RPUSH", "mylist", "element:%012d" % n),
    "spop": lambda n: ("SADD", "myset", "element:%012d" % n),
    "zpopmin": lambda n: ("ZADD", "myzset", n, "element:%012d" % n),
}
MEMBER = "m:__rand_int__"
# Large values: name, how one element is added, the requests that are timed.
LARGE = [
    ("sorted set", lambda n: ("ZADD", "big", n * 7919 % 1_000_003, "m:%012d" % n), {
        "ZADD": ["ZADD", "big", "__rand_int__", MEMBER],
        "ZRANK": ["ZRANK", "big", MEMBER],
        "ZSCORE": ["ZSCORE", "big", MEMBER],
        "ZRANGE of 10": ["ZRANGE", "big", "__rand_int__", "+inf", "BYSCORE", "LIMIT", "0", "10"],
    }),
    ("hash", lambda n: ("HSET", "big", "m:%012d" % n, "value:%012d" % n), {
        "HSET": ["HSET", "big", MEMBER, "value:__rand_int__"],
        "HGET": ["HGET", "big", MEMBER],
    }),
    ("set", lambda n: ("SADD", "big", "m:%012d" % n), {"SISMEMBER": ["SISMEMBER", "big", MEMBER]}),
    ("list", lambda n: ("RPUSH", "big", "value:%012d" % n), {}),
    ("stream", lambda n: ("XADD", "big", f"{n + 1}-1", "field", "value:%012d" % n), {}),
]


def run(server, what, requests, pipeline, keys, core):
    """redis-benchmark's requests a second and CPU microseconds of the server each, for every line that it prints."""
    before = server.cpu()
    done = subprocess.run(
        ["taskset", "-c", str(core), "redis-benchmark", "-p", str(server.port), "-n", str(requests),
         "-c", str(CLIENTS), "-P", str(pipeline), "-r", str(keys), "--csv"] + what,
        capture_output=True, text=True, check=True,
    )
    lines = done.stdout.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith('"test"'))
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[head:]))))
    cpu = (server.cpu() - before) / requests / len(rows) * 1e6
    return [(row["test"], float(row["rps"]), cpu) for row in rows]


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


def show(title, names, found):
    """A table of rates, and the ratios of rates and of CPU times."""
    print(f"\n### {title}\n")
    tests = list(next(iter(found.values())))
    rows = []
    for test in tests:
        cells = [test]
        for name in names:
            rates, cpu = zip(*found[name][test])
            cells += [f"{statistics.median(rates):.0f}", f"{statistics.median(cpu):.2f}"]
        for one, other in PAIRS:
            if one in names and other in names:
                for column in (0, 1):
                    ratios = [a[column] / b[column] for a, b in zip(found[one][test], found[other][test])]
                    cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        rows.append(cells)
    head = ["test"] + [cell for name in names for cell in (f"{name}, a second", "us CPU")]
    for one, other in PAIRS:
        if one in names and other in names:
            head += [f"{one} to {other}", "the same of CPU time"]
    print_table(head, rows)


def small(names, arguments, results, pipeline):
    """redis-benchmark's own tests."""
    found = {name: {} for name in names}
    requests = int(REQUESTS * arguments.scale) * (5 if pipeline > 1 else 1)

    def one(name, server):
        for test in arguments.tests.split(","):
            if test in FILL:
                server.send(FILL[test], requests)
            count = max(1000, requests // 10) if test == "lrange" else requests
            what = SPELLED.get(test, ["-t", test])
            for label, rate, cpu in run(server, what, count, pipeline, 100_000, arguments.client_core):
                if test == "lrange" and not label.startswith("LRANGE"):
                    continue
                label = label.split(" (")[0] if test not in SPELLED else test.upper()
                found[name].setdefault(label, []).append((rate, cpu))
                results.add("small", name, label, pipeline, rate, cpu)
            if test in FILL or test == "lrange":
                server.ask("FLUSHALL")

    take_turns(names, arguments, one)
    show(f"redis-benchmark's tests, pipeline {pipeline}, {CLIENTS} clients, {requests} requests a run", names, found)


def settled_memory(server):
    """The used memory, once the server has freed in the background what was deleted."""
    used = None
    while used != (used := int(server.info("memory")["used_memory"])):
        time.sleep(1)
    return used


def large(names, arguments, results, pipelines):
    """Values of many elements, and the memory that they take."""
    rates = {pipeline: {name: {} for name in names} for pipeline in pipelines}
    memory = {name: {} for name in names}
    requests = {pipeline: int(REQUESTS * arguments.scale) * (5 if pipeline > 1 else 1) for pipeline in pipelines}

    def one(name, server):
        for title, make, tests in LARGE:
            empty = settled_memory(server)
            server.send(make, arguments.members)
            used = (int(server.info("memory")["used_memory"]) - empty) / arguments.members
            memory[name].setdefault(title, []).append(used)
            results.add("memory", name, title, 0, used, 0)
            for pipeline in pipelines:
                for label, what in tests.items():
                    got = run(server, what, requests[pipeline], pipeline, arguments.members, arguments.client_core)[-1]
                    rates[pipeline][name].setdefault(label, []).append(got[1:])
                    results.add("large", name, label, pipeline, *got[1:])
            server.ask("DEL", "big")

    take_turns(names, arguments, one)
    for pipeline in pipelines:
        what = f"pipeline {pipeline}, {CLIENTS} clients, {requests[pipeline]} requests a run"
        show(f"{arguments.members} elements, {what}", names, rates[pipeline])
    print(f"\n### Bytes of memory per element, {arguments.members} elements\n")
    titles = [title for title, _, _ in LARGE]
    rows = [[name] + [f"{statistics.median(memory[name][title]):.1f}" for title in titles] for name in names]
    print_table([""] + titles, rows)
    for title in titles:
        print_ratios(f"bytes per element of a {title}", PAIRS, {name: memory[name][title] for name in names})


def main():
    """Measures what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    common_arguments(parser, "types.tsv")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="requests of a run, times this")
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--pipelines", default="1,16", help="none with an empty list: memory alone")
    parser.add_argument("--tests", default=",".join(TESTS), help="of redis-benchmark; none with an empty list")
    parser.add_argument("--members", type=int, default=1_000_000, help="of large values; 0 leaves them out")
    arguments = parser.parse_args()
    names = chosen(arguments, DEFAULT)
    print("Command line: benches/types.sh", *sys.argv[1:])
    print(*machine(arguments.disk), sep="\n", flush=True)
    results = Results(arguments.tsv, ["kind", "system", "test", "pipeline", "value", "cpu_us"])
    pipelines = [int(pipeline) for pipeline in arguments.pipelines.split(",") if pipeline]
    if arguments.tests:
        for pipeline in pipelines:
            small(names, arguments, results, pipeline)
    if arguments.members:
        large(names, arguments, results, pipelines)
    print(f"\nraw figures: {results.path}")


main()
