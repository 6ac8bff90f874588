"""BullMQ promises at least once: each step of a job is one script, and a job whose worker does not
renew its lock is stalled and executed again. Its client repeats a request whose reply got lost;
jobs with identifiers of their own are added once nevertheless.

So nothing that was queued may be lost, each job is completed in the store, and none was executed
twice but those that were active at a kill: as many as the worker executes at once. Jobs are
delayed, have priorities, or wait for the results of three others.
"""

import pytest

from harness import APPLICATIONS, WINDOW, Lost, stage, verify

CONCURRENCY = 4


def left(client):
    key = "bull:clients:{}".format
    lists = sum(client.llen(key(name)) for name in ("wait", "active", "paused"))
    sets = sum(client.zcard(key(name)) for name in ("delayed", "prioritized", "waiting-children"))
    return lists + sets


def check(backend, jobs, kills, monkeypatch):
    monkeypatch.setenv("CLIENTS_CONCURRENCY", str(CONCURRENCY))
    monkeypatch.setenv("CLIENTS_WINDOW", str(WINDOW))
    with stage(backend) as here:
        program = ["node", APPLICATIONS / "bullmq_app.cjs"]
        here.worker(*program, "work")
        producer = here.spawn(*program, "produce")
        here.kill_under_load(producer, jobs, kills)
        client = here.server.client()
        here.wait_for(lambda: left(client) == 0, "an empty queue")
        here.stop_workers()
        verify(here.ledger, twice_at_most=CONCURRENCY * kills)
        completed = {name.decode() for name in client.zrange("bull:clients:completed", 0, -1)}
        missing = {f"job-{job}" for job in here.ledger.jobs("sent")} - completed
        if missing:
            raise Lost(f"executed, but not completed: {sorted(missing)}")


@pytest.mark.parametrize("backend", ["pool", "aof"])
def test_no_job_is_lost(backend, jobs, kills, monkeypatch):
    check(backend, jobs, kills, monkeypatch)


def test_a_server_that_forgets_is_noticed(few_jobs, monkeypatch):
    with pytest.raises(Lost):
        check("volatile", few_jobs, 1, monkeypatch)
