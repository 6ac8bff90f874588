"""What all tests share: a server that is killed and started again, the processes of an application,
and the ledger in which they record what they did.

Only processes that were started here are ended, by their process group. Nothing is asserted about
time: each wait is for a condition, and its limit is far beyond what any machine needs.
"""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter

import redis

HERE = pathlib.Path(__file__).resolve().parent
APPLICATIONS = HERE / "applications"
PATIENCE = int(os.environ.get("PATIENCE", "120"))

# How many jobs a producer may be ahead of the workers, so that both work when a kill comes.
WINDOW = 20

# For how many seconds a worker may take nothing although jobs wait, before it counts as hanging.
STALL = 20

# The program of Python with its packages, for applications that are modules.
MODULE = (sys.executable, "-m")

BACKENDS = {
    "pool": ["--backend", "pmem", "--domain", "process", "--pool", "perdura.pool"],
    "aof": ["--backend", "aof", "--appendfsync", "always"],
    # Keeps nothing: a test that passes on it could not fail.
    "volatile": ["--backend", "aof", "--appendonly", "no"],
    # The peer, for expectations that are those of Redis.
    "redis-server": ["--save", ""],
}


class Lost(AssertionError):
    """The server broke what the library promises with a server that loses nothing."""


def wait_for(condition, what, patience=PATIENCE):
    """Waits until the condition holds and returns its value."""
    began = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() - began > patience:
            raise TimeoutError(f"{patience} seconds without {what}")
        time.sleep(0.01)


def free_port():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


class Server:
    """perdura-server on a free port of this machine, over one folder from start to start."""

    def __init__(self, folder, backend, options=()):
        self.folder = folder
        self.program = backend if backend == "redis-server" else os.environ["PERDURA_SERVER"]
        self.options = [*BACKENDS[backend], *options]
        self.process = None
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self):
        command = [self.program, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", "."]
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                command + self.options, cwd=self.folder, stdout=log, stderr=log
            )
        wait_for(self.answers, "a reply of the server")

    def answers(self):
        if self.process.poll() is not None:
            raise RuntimeError((self.folder / "server.log").read_text())
        try:
            with self.client() as client:
                return client.ping()
        except redis.ConnectionError:
            return False

    def client(self):
        return redis.Redis(port=self.port, retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0))

    def kill(self):
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def kill_and_start(self):
        self.kill()
        self.start()


class Ledger:
    """A file of lines `EVENT JOB`, each appended with one write by the process that it happened in.

    - `sent`: the library said that the job is queued
    - `unsure`: it raised an error, so that the job may be queued or not
    - `ran`: the job was executed, to its end
    - `stop`: the producer is asked to queue no more
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.touch()

    def add(self, event, job):
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, f"{event} {job}\n".encode())
        finally:
            os.close(descriptor)

    def jobs(self, event):
        """The jobs of an event in the order in which they were recorded."""
        pairs = (line.split(" ", 1) for line in self.path.read_text().splitlines())
        return [job for name, job in pairs if name == event]

    def waiting(self):
        """How many jobs are queued and were not executed yet."""
        return len(set(self.jobs("sent")) - set(self.jobs("ran")))

    def execute(self, job):
        """What a worker does with a job: while more will come, it leaves some in the store."""
        began = time.monotonic()
        while self.waiting() <= WINDOW // 2 and not self.jobs("stop"):
            if time.monotonic() - began > 2:
                break
            time.sleep(0.005)
        self.add("ran", job)

    def count(self, event):
        return len(set(self.jobs(event)))


def verify(ledger, lost_at_most=0, twice_at_most=0):
    """Compares what was executed with what was queued."""
    sent, unsure = set(ledger.jobs("sent")), set(ledger.jobs("unsure"))
    ran = Counter(ledger.jobs("ran"))
    lost = sent - set(ran)
    twice = {job for job, times in ran.items() if times > 1}
    print(
        f"{len(sent)} sent, {len(unsure)} unsure, {len(ran)} ran,"
        f" {len(lost)} lost of {lost_at_most}, {len(twice)} twice of {twice_at_most}"
    )
    unknown = set(ran) - sent - unsure
    if unknown:
        raise Lost(f"executed, but never queued: {sorted(unknown)}")
    if len(lost) > lost_at_most:
        raise Lost(f"queued, but not executed: {sorted(lost)}")
    if len(twice) > twice_at_most:
        raise Lost(f"executed more than once: {sorted(twice)}")


class Stage:
    """One server and the processes of one application."""

    def __init__(self, folder, backend, prepare=None, queue=None):
        self.folder = pathlib.Path(folder)
        self.queue = queue
        self.ledger = Ledger(self.folder / "ledger")
        self.server = Server(self.folder, backend, prepare(self.folder) if prepare else ())
        self.processes = []
        self.workers = {}
        self.hangs = 0
        # How much the workers have done, and when they did the last of it.
        self.done, self.done_at = 0, time.monotonic()

    def worker(self, *command):
        """Starts a worker, and again if it ends by itself, as the supervisor of a service does."""
        process = self.spawn(*command)
        self.workers[process] = command
        return process

    def supervise(self):
        if self.queue:
            self.replace_hanging(self.queue)
        for process, command in list(self.workers.items()):
            if process.poll() is not None:
                print(f"the worker ended with {process.returncode} and is started again")
                del self.workers[process]
                self.worker(*command)

    def replace_hanging(self, queue):
        """Ends the workers if the jobs in a list of this name wait, and none was executed for
        `STALL` seconds, as the liveness probe of a service does. `supervise` starts them again.

        A client that the server blocks on a list with jobs is no worker that hangs: it was not
        woken, and that is the server's defect.
        """
        done = self.ledger.count("ran") + self.ledger.count("part")
        if done != self.done:
            self.done, self.done_at = done, time.monotonic()
        if time.monotonic() - self.done_at < STALL:
            return
        client = self.server.client()
        if client.llen(queue) == 0:
            return
        clients = client.client_list()
        for other in clients:
            if other["cmd"] == "brpop" and "b" in other["flags"] and int(other["idle"]) > 1:
                raise Lost(f"not woken, although {queue} has jobs: {other}")
        self.hangs += 1
        print(f"{STALL} seconds without progress: the workers are ended, with {clients}")
        self.done_at = time.monotonic()
        for process in self.workers:
            os.killpg(process.pid, signal.SIGKILL)

    def stop_workers(self):
        """Ends the workers as their operator does: asks them again if they do not end.

        RQ forgets a request that comes after a worker looked for one and before it calls itself
        idle: it then waits for its next job, for minutes.
        """
        self.ask_to_end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.join_workers(10)
        self.ask_to_end()
        self.join_workers(PATIENCE)
        self.workers.clear()

    def ask_to_end(self):
        for process in self.workers:
            if process.poll() is None:
                process.terminate()

    def join_workers(self, seconds):
        for process in self.workers:
            process.wait(seconds)

    def wait_for(self, condition, what):
        def supervised():
            self.supervise()
            return condition()

        wait_for(supervised, what)

    def spawn(self, *command, **variables):
        """Starts a process of the application, in a process group of its own."""
        environment = dict(
            os.environ,
            CLIENTS_URL=self.server.url,
            CLIENTS_LEDGER=str(self.ledger.path),
            PYTHONPATH=os.pathsep.join([str(HERE), str(APPLICATIONS)]),
        )
        environment.update(variables)
        with open(self.folder / f"{len(self.processes)}.log", "wb") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def kill_under_load(self, producer, jobs, kills):
        """Kills the server and starts it again, each time that another part of the jobs was
        executed, and ends the producer after the last part.
        """
        for number in range(1, kills + 1):
            self.wait_for_load(jobs * number // (kills + 1))
            self.server.kill_and_start()
        self.wait_for_load(jobs)
        self.ledger.add("stop", "now")
        self.wait_for(lambda: producer.poll() is not None, "the end of the producer")
        assert producer.returncode == 0, f"the producer ended with {producer.returncode}"

    def wait_for_load(self, share):
        """Waits until so much was executed, and jobs are waiting in the store."""

        def is_loaded():
            return self.ledger.count("ran") >= share and self.ledger.waiting() > WINDOW // 2

        self.wait_for(is_loaded, "progress of the workers")

    def close(self):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.server.kill()

    def output(self, process):
        """What a process has printed."""
        number = self.processes.index(process)
        return (self.folder / f"{number}.log").read_text(errors="replace")

    def logs(self):
        for path in sorted(self.folder.glob("*.log")):
            yield path.name, path.read_text(errors="replace")[-6000:]


@contextlib.contextmanager
def stage(backend, prepare=None, queue=None):
    """A stage in a scratch directory; if a test fails, the ends of all logs are printed. `prepare`
    gets the directory and returns further options of the server. `queue` is the list of the jobs
    of workers that are known to hang after a lost connection.
    """
    with tempfile.TemporaryDirectory(prefix="perdura-clients-") as folder:
        here = Stage(folder, backend, prepare, queue)
        try:
            yield here
        except BaseException:
            for name, text in here.logs():
                print(f"--- {name}\n{text}")
            raise
        finally:
            here.close()
