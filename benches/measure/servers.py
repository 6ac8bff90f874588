"""Servers to be measured: how each is started, asked, watched and stopped.

A server runs in a scratch directory of its own, on a port of its own, pinned to one core with all of its threads. What
is appended to a log goes to a disk (--disk), a pool lies in /dev/shm. Nothing here knows what is measured.
"""

import os
import platform
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PERDURA = os.environ.get("PERDURA_SERVER", os.path.join(ROOT, "target/release/perdura-server"))
REDIS = os.environ.get("REDIS_SERVER", "redis-server")

REDIS_AOF = ["--save", "", "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"]
PERDURA_AOF = [
    "--backend", "aof", "--threads", "1", "--maxmemory", "0", "--auto-aof-rewrite-percentage", "0"
]
POOL = ["--pool", "perdura.pool", "--pool-size", "16gb", "--threads", "1"]

# name: program, arguments, whether the directory must be on a disk
SYSTEMS = {
    "redis none": (REDIS, ["--save", "", "--appendonly", "no"], False),
    "redis everysec": (REDIS, REDIS_AOF + ["--appendfsync", "everysec"], True),
    "redis always": (REDIS, REDIS_AOF + ["--appendfsync", "always"], True),
    "redis everysec, no RDB base": (
        REDIS,
        REDIS_AOF + ["--appendfsync", "everysec", "--aof-use-rdb-preamble", "no"],
        True,
    ),
    "perdura volatile": (
        PERDURA, ["--backend", "aof", "--appendonly", "no", "--threads", "1"], False,
    ),
    "perdura pmem emulated": (
        PERDURA, ["--backend", "pmem", "--domain", "clwb", "--emulate-pmem"] + POOL, False,
    ),
    "perdura pmem process": (PERDURA, ["--backend", "pmem", "--domain", "process"] + POOL, False),
    "perdura aof everysec": (PERDURA, PERDURA_AOF + ["--appendfsync", "everysec"], True),
    "perdura aof always": (PERDURA, PERDURA_AOF + ["--appendfsync", "always"], True),
}


class Server:
    """A running server."""

    def __init__(self, name, disk, core=None):
        self.name = name
        self.program, self.arguments, on_disk = SYSTEMS[name]
        self.core = core
        self.folder = tempfile.mkdtemp(prefix="measure-", dir=disk if on_disk else "/dev/shm")
        self.process = None
        try:
            self.start()
            self.wait()
        except BaseException:
            self.remove()
            raise

    def start(self):
        """Executes the program; returns at once."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        pin = [] if self.core is None else ["taskset", "-c", str(self.core)]
        where = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder]
        self.log = os.path.join(self.folder, "server.log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                pin + [self.program] + where + self.arguments,
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )

    def wait(self, patience=60):
        """Waits until it answers."""
        end = time.monotonic() + patience
        while self.ask("PING") != b"+PONG":
            if self.process.poll() is not None or time.monotonic() > end:
                with open(self.log, errors="replace") as log:
                    raise SystemExit(f"{self.name} does not start:\n{log.read()[-2000:]}")
            time.sleep(0.005)

    def ask(self, *words):
        """The first line of a reply; None if there is none."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=60) as peer:
                peer.sendall(command(*words))
                return peer.makefile("rb").readline().strip()
        except OSError:
            return None

    def info(self, section):
        """Fields of INFO."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as peer:
            peer.sendall(command("INFO", section))
            reply = peer.makefile("rb")
            text = reply.read(int(reply.readline()[1:])).decode()
        lines = (line.split(":", 1) for line in text.splitlines() if ":" in line)
        return {name: value for name, value in lines}

    def cpu(self):
        """CPU seconds that its threads have used, to the nanosecond."""
        tasks = f"/proc/{self.process.pid}/task"
        used = 0
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/schedstat") as stat:
                used += int(stat.read().split()[0])
        return used / 1e9

    def fill(self, count, size, first=0):
        """Sets keys `first` to `first + count` (16 bytes each) to values of `size` bytes."""
        value = b"v" * size
        one = b"*3\r\n$3\r\nSET\r\n$16\r\nkey:%%012d\r\n$%d\r\n%s\r\n" % (size, value)
        step = max(1, min(5000, (4 << 20) // (size + 64)))
        with socket.create_connection(("127.0.0.1", self.port), timeout=600) as peer:
            replies = peer.makefile("rb")
            for begin in range(first, first + count, step):
                numbers = range(begin, min(begin + step, first + count))
                peer.sendall(b"".join([one % n for n in numbers]))
                got = replies.read(5 * len(numbers))
                if got != b"+OK\r\n" * len(numbers):
                    raise SystemExit(f"{self.name} refused a SET: {got[:200]!r}")

    def send(self, make, count):
        """Sends `count` commands, made by `make` from their numbers, many to a round trip; none may be refused."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=600) as peer:
            replies = peer.makefile("rb")
            for begin in range(0, count, 2000):
                numbers = range(begin, min(begin + 2000, count))
                peer.sendall(b"".join([command(*make(n)) for n in numbers]))
                for _ in numbers:
                    line = replies.readline()
                    if line[:1] in (b"-", b""):
                        raise SystemExit(f"{self.name} refused {make(begin)}: {line!r}")
                    if line[:1] == b"$":
                        replies.read(int(line[1:]) + 2)

    def kill(self):
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def remove(self):
        """Stops it and removes what it wrote."""
        if self.process and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def command(*words):
    """A request."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def first_line(program, *arguments):
    """What a program says first."""
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        return (done.stdout or done.stderr).strip().splitlines()[0]
    except (OSError, IndexError):
        return f"{program}: not found"


def machine(disk):
    """What a number must be read with: CPU, system, media, versions."""
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":")[1].strip() for line in info if "model name" in line), "?")
    kind = subprocess.run(
        ["df", "--output=source,fstype", disk], capture_output=True, text=True, check=False
    ).stdout.split()[-2:]
    commit = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
        check=False,
    ).stdout.strip()
    return [
        f"CPU: {model}, {os.cpu_count()} cores; {platform.system()} {platform.release()}",
        f"logs on {' '.join(kind)}; pools in /dev/shm",
        f"{first_line(PERDURA, '--version')} (commit {commit})",
        first_line(REDIS, "--version"),
        f"Python {platform.python_version()} drives; load average before: {os.getloadavg()[0]:.2f}",
    ]


def print_table(head, rows):
    """A Markdown table with aligned columns."""
    cells = [head] + [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[n]) for row in cells) for n in range(len(head))]

    def line(row):
        first = row[0].ljust(widths[0])
        return "| " + " | ".join([first] + [c.rjust(w) for c, w in zip(row[1:], widths[1:])]) + " |"

    rule = ["-" * widths[0]] + ["-" * (width - 1) + ":" for width in widths[1:]]
    print("\n".join([line(head), line(rule)] + [line(row) for row in cells[1:]]), flush=True)


def print_ratios(what, pairs, values):
    """Ratios between systems, each taken between runs of the same round: median, lowest, highest."""
    for one, other in pairs:
        if one in values and other in values:
            ratios = [a / b for a, b in zip(values[one], values[other])]
            middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
            print(f"- {what}, {one} to {other}: {middle:.2f}x ({low:.2f} to {high:.2f})", flush=True)


class Results:
    """Raw figures, one line each, as tab-separated values."""

    def __init__(self, path, head):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        self.file = open(path, "w", encoding="utf-8")
        self.path = path
        self.add(*head)

    def add(self, *cells):
        """One more line."""
        self.file.write("\t".join(str(cell) for cell in cells) + "\n")
        self.file.flush()


def common_arguments(parser, results):
    """Options that all measurements have."""
    parser.add_argument("--disk", default=os.path.join(ROOT, "target"), help="where logs lie")
    parser.add_argument("--tsv", default=os.path.join(ROOT, "target", "measure", results))
    parser.add_argument("--systems", help="comma-separated; all by default")


def chosen(arguments, default):
    """The systems to measure."""
    os.makedirs(arguments.disk, exist_ok=True)
    names = arguments.systems.split(",") if arguments.systems else default
    for name in names:
        if name not in SYSTEMS:
            raise SystemExit(f"no system {name!r}; there are: {', '.join(SYSTEMS)}")
    return names
