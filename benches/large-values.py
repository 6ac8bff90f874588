#!/usr/bin/env python3
"""Commands over whole values of a million elements: Perdura compared with Redis and Valkey.

    benches/large-values.py [--rounds 3] [--only TEXT] [--elements 1000000] NAME=PROGRAM ...

    benches/large-values.py redis-7.0=redis-server valkey-9.1=valkey-server

Perdura (target/release/perdura-server, or $PERDURA) takes part twice: in memory, and as it starts by itself on a disk, a pool with a
journal and `appendfsync everysec`. The others write nothing to a disk. Each server has its own defaults otherwise and a directory below
$DIR (/var/tmp), which is removed. All of them run at once, filled with the same elements in the same order; for each command they take
turns, and one works at a time. Nothing is pinned.

A command's time is that from its sending until all of its reply was received; it is sent with a PING, whose reply ends it. The target is
deleted before, and the server is given the time to free it. In brackets is the CPU time that the server spent meanwhile, threads in
the background included. Both are medians of the rounds. The table is Markdown.
"""

import argparse, os, random, shutil, socket, statistics, subprocess, sys, time

COMMANDS = """SINTERSTORE d s1 s2
SUNIONSTORE d s1 s2
SDIFFSTORE d s1 s2
SINTER s1 s2
SUNION s1 s2
SDIFF s1 s2
ZINTERSTORE d 2 z1 z2
ZUNIONSTORE d 2 z1 z2
ZDIFFSTORE d 2 z1 z2
ZUNIONSTORE d 2 s1 s2
ZINTER 2 z1 z2
ZUNION 2 z1 z2
ZRANGESTORE d z1 0 -1
ZRANGESTORE d z1 -inf +inf BYSCORE
COPY s1 d
COPY z1 d
COPY h1 d
COPY l1 d
SORT l1 STORE d
SORT s1 ALPHA STORE d""".splitlines()
# The keys of a command are in one slot.
KEYS = {"d", "s1", "s2", "z1", "z2", "h1", "l1"}
PONG = b"+PONG\r\n"


def request(words):
    words = [(word + "{t}" if word in KEYS else word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Server:
    def __init__(self, name, command, port, directory):
        self.name = name
        os.makedirs(directory)
        command = command + ["--dir", directory, "--port", str(port), "--bind", "127.0.0.1"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(500):
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=300)
                return
            except OSError:
                time.sleep(0.02)
        raise SystemExit(f"{name} does not start")

    def send(self, requests):
        """Sends requests and a PING; the seconds until that was answered, and the first line."""
        begin = time.perf_counter()
        self.socket.sendall(requests + b"PING\r\n")
        head, tail = b"", b""
        while tail != PONG:
            piece = self.socket.recv(1 << 20)
            if not piece:
                raise SystemExit(f"{self.name} closed the connection")
            head = head or piece.split(b"\r\n")[0]
            tail = (tail + piece)[-len(PONG) :]
        return time.perf_counter() - begin, head

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rest(self):
        """Waits until the server has nothing to do."""
        before = self.cpu()
        for _ in range(100):
            time.sleep(0.1)
            now = self.cpu()
            if now == before:
                return
            before = now

    def measure(self, line):
        self.send(request(["DEL", "d"]))
        self.rest()
        before = self.cpu()
        seconds, head = self.send(request(line.split()))
        return seconds, self.cpu() - before, head

    def fill(self, name, key, elements, width=1):
        for at in range(0, len(elements), 1000 * width):
            self.send(request([name, key] + elements[at : at + 1000 * width]))


def fill(server, count):
    """Two sets and two sorted sets that have a half in common, a hash and a list, in no order."""
    numbers = random.Random(1)
    sets = [[f"m:{n}" for n in range(first, first + count)] for first in (0, count // 2)]
    for number, members in enumerate(sets, 1):
        numbers.shuffle(members)
        server.fill("SADD", f"s{number}", members)
        pairs = [word for member in members for word in (str(numbers.randrange(10**9)), member)]
        server.fill("ZADD", f"z{number}", pairs, 2)
    server.fill("HSET", "h1", [word for member in sets[0] for word in (member, "v:" + member)], 2)
    server.fill("RPUSH", "l1", [str(numbers.randrange(10**9)) for _ in range(count)])


def cell(figures):
    seconds, cpu = (statistics.median(figure[column] for figure in figures) for column in (0, 1))
    return f"{seconds:.3f} ({cpu:.2f})"


def compare(servers, options):
    print("load average at the begin:", open("/proc/loadavg").read().split()[0], "\n")
    print("| seconds (CPU time) |", " | ".join(server.name for server in servers), "|")
    print("|---|" + "---|" * len(servers))
    for line in COMMANDS:
        if options.only not in line:
            continue
        figures = {server: [] for server in servers}
        for _ in range(options.rounds):
            for server in servers:
                figures[server].append(server.measure(line))
        heads = {figure[2] for all in figures.values() for figure in all}
        if len(heads) > 1:
            raise SystemExit(f"{line}: replies differ: {heads}")
        print(f"| `{line}` |", " | ".join(cell(figures[server]) for server in servers), "|", flush=True)
    print("\nload average at the end:", open("/proc/loadavg").read().split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="commands that contain this")
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--port", type=int, default=23760, help="the first of the ports")
    parser.add_argument("peers", nargs="*", metavar="NAME=PROGRAM")
    options = parser.parse_args()
    perdura = os.environ.get("PERDURA", "target/release/perdura-server")
    programs = [
        ("Perdura, memory", [perdura, "--backend", "aof", "--appendonly", "no", "--save", ""]),
        ("Perdura, journal", [perdura]),
    ]
    for peer in options.peers:
        name, program = peer.split("=", 1)
        programs.append((name, [program, "--appendonly", "no", "--save", ""]))
    root = os.path.join(os.environ.get("DIR", "/var/tmp"), f"large-values-{os.getpid()}")
    servers = []
    try:
        for number, (name, command) in enumerate(programs):
            servers.append(Server(name, command, options.port + number, f"{root}/{number}"))
            fill(servers[-1], options.elements)
        compare(servers, options)
    finally:
        for server in servers:
            server.process.kill()
            server.process.wait()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
