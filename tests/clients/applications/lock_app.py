"""A process that takes a lock again and again: redis-py's Lock, with a fencing token.

The truth is outside of the store: a file that only the holder of the lock creates and removes, with
the time until which its lock is valid. A lock that was released by a request whose reply got lost
may be held until that time.
"""

import contextlib
import os
import sys
import time

import redis
from redis.exceptions import LockError
from redis.retry import Retry

from harness import Ledger, wait_for
from producer import is_reachable

SECONDS = 3
# A server expires keys by whole milliseconds, of a clock that it reads once for several requests.
MARGIN = 0.01

client = redis.Redis.from_url(os.environ["CLIENTS_URL"], retry=Retry(redis.backoff.NoBackoff(), 0))
ledger = Ledger(os.environ["CLIENTS_LEDGER"])


def enter(held, valid_until):
    """Creates the file of the holder; another holder whose lock is valid is a violation."""
    try:
        descriptor = os.open(held, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        other = read(held)
        if time.monotonic() < other:
            ledger.add("violation", f"held by two, valid for {other - time.monotonic()} seconds")
        leave(held)
        descriptor = os.open(held, os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, str(valid_until).encode())
    os.close(descriptor)


def read(held):
    with contextlib.suppress(FileNotFoundError, ValueError):
        with open(held) as file:
            return float(file.read())
    return 0.0


def leave(held):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(held)


def hold(name):
    """Takes the lock, has a fencing token that increases, extends the lock and releases it."""
    held = f"held-{name}"
    lock = client.lock(name, timeout=SECONDS, sleep=0.005, blocking_timeout=2 * SECONDS)
    asked = time.monotonic()
    if not lock.acquire():
        return
    valid_until = asked + SECONDS - MARGIN
    enter(held, valid_until)
    fence = client.incr(f"fence-{name}")
    owned = lock.owned()
    if time.monotonic() < valid_until:
        ledger.add(f"fence-{name}", fence)
        if not owned:
            ledger.add("violation", "a holder does not own its lock")
    lock.extend(SECONDS, replace_ttl=True)
    leave(held)
    lock.release()
    ledger.add("ran", f"{name}-{fence}")


def main():
    rounds, name = int(sys.argv[1]), sys.argv[2]
    while ledger.count("ran") < rounds:
        try:
            hold(name)
        except (redis.ConnectionError, LockError) as error:
            # What was held may be held until it expires.
            ledger.add("error", error)
            wait_for(is_reachable, "a server")


main()
