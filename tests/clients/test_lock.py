"""redis-py's Lock promises one holder until its timeout. It is released, extended and acquired
again by scripts that compare the token of the holder.

So a kill may leave a lock held until its timeout, and nobody else may get it before; each holder
gets a fencing token that is greater than all before.
"""

import pytest
import redis

from harness import MODULE, Lost, stage

NAMES = ("red", "blue")
PROCESSES = 3


def verify(ledger):
    for violation in ledger.jobs("violation"):
        raise Lost(violation)
    for name in NAMES:
        fences = [int(fence) for fence in ledger.jobs(f"fence-{name}")]
        if any(next_one <= fence for fence, next_one in zip(fences, fences[1:])):
            raise Lost(f"the fencing tokens of {name} do not increase: {fences}")


def check(backend, rounds, kills):
    with stage(backend) as here:
        holders = [
            here.spawn(*MODULE, "lock_app", str(rounds), name)
            for name in NAMES
            for _ in range(PROCESSES)
        ]
        for number in range(1, kills + 1):
            share = rounds * number // (kills + 1)
            here.wait_for(lambda: here.ledger.count("ran") >= share, "progress")
            here.server.kill_and_start()
        here.wait_for(lambda: here.ledger.count("ran") >= rounds, "progress")
        for holder in holders:
            here.wait_for(lambda: holder.poll() is not None, "the end of a holder")
            assert holder.returncode == 0, f"a holder ended with {holder.returncode}"
        print(f"{here.ledger.count('ran')} holders, {len(here.ledger.jobs('error'))} errors")
        verify(here.ledger)


@pytest.mark.parametrize("backend", ["pool", "aof"])
def test_a_lock_has_one_holder(backend, jobs, kills):
    check(backend, jobs, kills)


def test_fencing_tokens_that_are_forgotten_are_noticed(few_jobs):
    with pytest.raises(Lost):
        check("volatile", few_jobs, 1)


def check_held(backend):
    """The holder is the same after a kill, and everything that it can do with its lock works."""
    with stage(backend) as here:
        holder, other = redis.Redis.from_url(here.server.url), redis.Redis.from_url(here.server.url)
        lock, same = holder.lock("lock", timeout=600), other.lock("lock", timeout=600)
        assert lock.acquire(blocking=False)
        for _ in range(3):
            here.server.kill_and_start()
            if same.acquire(blocking=False):
                raise Lost("a lock that is held was given to another")
            assert lock.owned() and not same.owned()
            assert lock.extend(600) and lock.reacquire()
            with pytest.raises(redis.exceptions.LockNotOwnedError):
                same.local.token = b"of somebody else"
                same.release()
        lock.release()
        here.server.kill_and_start()
        if not same.acquire(blocking=False):
            raise Lost("a lock that was released is held")


@pytest.mark.parametrize("backend", ["pool", "aof"])
def test_a_holder_survives_the_server(backend):
    check_held(backend)


def test_a_lock_that_is_forgotten_is_noticed():
    with pytest.raises(Lost):
        check_held("volatile")
