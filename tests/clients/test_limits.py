"""The rate limiters of `limits` count by scripts: a request is admitted and counted in one step.

So within one window no more requests than the limit are admitted, whenever the server is killed. A
request whose reply got lost may have been counted: fewer may be admitted, one for each of those.
"""

import limits
import pytest

from harness import MODULE, Lost, stage

STRATEGIES = ("fixed-window", "moving-window", "sliding-window-counter")
PROCESSES = 2


def check(backend, limit, kills):
    with stage(backend) as here:
        clients = [
            here.spawn(*MODULE, "limits_app", strategy, str(limit))
            for strategy in STRATEGIES
            for _ in range(PROCESSES)
        ]
        for number in range(1, kills + 1):
            share = limit * number // (kills + 1)
            here.wait_for(lambda: min(admitted(here.ledger)) >= share, "admitted requests")
            here.server.kill_and_start()
        for client in clients:
            here.wait_for(lambda: client.poll() is not None, "a refusal")
            assert client.returncode == 0, f"a client ended with {client.returncode}"
        here.server.kill_and_start()
        verify(here, limit)


def admitted(ledger, event="admitted"):
    """How many requests were admitted by each strategy."""
    names = ledger.jobs(event)
    return [sum(name.startswith(strategy) for name in names) for strategy in STRATEGIES]


def verify(here, limit):
    counts = zip(STRATEGIES, admitted(here.ledger), admitted(here.ledger, "unsure"))
    for strategy, count, unsure in counts:
        print(f"{strategy}: {count} of {limit} admitted, {unsure} unsure")
        if not limit - unsure <= count <= limit:
            raise Lost(f"{strategy}: {count} of {limit} were admitted, {unsure} are unsure")
        storage = limits.storage.storage_from_string(here.server.url)
        limiter = limits.strategies.STRATEGIES[strategy](storage)
        if limiter.hit(limits.RateLimitItemPerDay(limit), strategy):
            raise Lost(f"{strategy}: one more was admitted")


@pytest.mark.parametrize("backend", ["pool", "aof"])
def test_no_window_admits_more_than_its_limit(backend, jobs, kills):
    check(backend, 5 * jobs, kills)


def test_a_counter_that_is_forgotten_is_noticed(few_jobs):
    with pytest.raises(Lost):
        check("volatile", few_jobs, 1)
