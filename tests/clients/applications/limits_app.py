"""A process that asks a rate limiter of `limits` again and again, until it is refused."""

import os
import sys

import limits
import redis

from harness import Ledger, wait_for
from producer import is_reachable

ledger = Ledger(os.environ["CLIENTS_LEDGER"])


def limiter(strategy):
    storage = limits.storage.storage_from_string(os.environ["CLIENTS_URL"])
    return limits.strategies.STRATEGIES[strategy](storage)


def main():
    strategy, limit = sys.argv[1], limits.RateLimitItemPerDay(int(sys.argv[2]))
    asked = limiter(strategy)
    number = 0
    while True:
        number += 1
        name = f"{strategy}-{os.getpid()}-{number}"
        try:
            if not asked.hit(limit, strategy):
                break
            ledger.add("admitted", name)
        except redis.ConnectionError:
            ledger.add("unsure", name)
            wait_for(is_reachable, "a server")


if __name__ == "__main__":
    main()
