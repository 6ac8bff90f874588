"""The loop of all producers in Python.

They use clients that repeat no request, so that each job is queued once at most. A client that
repeats a request whose reply got lost may queue a job twice.
"""

import itertools
import os
import socket
import time
from urllib.parse import urlsplit

from harness import WINDOW, Ledger, wait_for

ledger = Ledger(os.environ["CLIENTS_LEDGER"])


def is_reachable():
    address = urlsplit(os.environ["CLIENTS_URL"])
    with socket.socket() as connection:
        return connection.connect_ex((address.hostname, address.port)) == 0


class Pace:
    """Keeps a producer at most WINDOW jobs ahead of the workers."""

    def __init__(self):
        # What the workers seem to have lost, or to leave until they are started again.
        self.missing = 0

    def wait(self):
        waiting, since = ledger.waiting(), time.monotonic()
        while waiting - self.missing > WINDOW:
            time.sleep(0.01)
            latest = ledger.waiting()
            if latest != waiting:
                waiting, since = latest, time.monotonic()
            elif time.monotonic() - since > 5:
                self.missing = waiting


def produce(queue, errors):
    """Calls `queue` with jobs 0, 1, ... until it is asked to stop, with each job once. After one of
    these errors a job may be queued or not.
    """
    pace = Pace()
    for job in itertools.count():
        pace.wait()
        if ledger.jobs("stop"):
            return
        try:
            queue(job)
        except errors:
            ledger.add("unsure", job)
            wait_for(is_reachable, "a server")
        else:
            ledger.add("sent", job)
