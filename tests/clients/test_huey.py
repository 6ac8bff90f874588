"""huey promises at most once: a worker pops a task and executes it; the scheduler pops all tasks
that are due by one script, and pushes each to the queue.

So of what was queued each worker may lose one task for each kill, that of a reply that got lost,
and nothing is executed twice. What is scheduled is lost by no kill; of what the scheduler has
popped, a push whose reply got lost is repeated, so that one task for each kill may be executed
twice.
"""

import datetime
import importlib
import sys
import time
from pathlib import Path

import pytest

from harness import APPLICATIONS, MODULE, Lost, stage, verify

WORKERS = 4


def start_consumer(here):
    program = Path(sys.executable).with_name("huey_consumer")
    arguments = ["--workers", str(WORKERS), "--scheduler-interval", "1", "--max-delay", "0.5"]
    here.worker(program, "huey_app.huey", *arguments)


def open_queue(here):
    from huey import RedisHuey

    return RedisHuey("clients", url=here.server.url)


def check(backend, jobs, kills):
    with stage(backend) as here:
        start_consumer(here)
        producer = here.spawn(*MODULE, "huey_app")
        here.kill_under_load(producer, jobs, kills)
        queue = open_queue(here)
        here.wait_for(lambda: queue.pending_count() == 0, "an empty queue")
        here.stop_workers()
        verify(here.ledger, lost_at_most=WORKERS * kills)


@pytest.mark.parametrize("backend", ["pool", "aof"])
def test_no_task_is_lost(backend, jobs, kills):
    check(backend, jobs, kills)


def test_a_server_that_forgets_is_noticed(few_jobs):
    with pytest.raises(Lost):
        check("volatile", few_jobs, 1)


def check_schedule(backend, jobs, monkeypatch):
    with stage(backend) as here:
        monkeypatch.setenv("CLIENTS_URL", here.server.url)
        monkeypatch.setenv("CLIENTS_LEDGER", str(here.ledger.path))
        monkeypatch.syspath_prepend(APPLICATIONS)
        monkeypatch.delitem(sys.modules, "producer", raising=False)
        monkeypatch.delitem(sys.modules, "huey_app", raising=False)
        application = importlib.import_module("huey_app")
        due = time.time() + 1
        for job in range(jobs):
            task = application.record.s(job, eta=datetime.datetime.fromtimestamp(due))
            application.huey.add_schedule(task)
            here.ledger.add("sent", job)
        here.server.kill_and_start()
        if application.huey.scheduled_count() != jobs:
            raise Lost(f"{application.huey.scheduled_count()} of {jobs} tasks are scheduled")
        # All are due at once, so that one script pops all of them.
        here.wait_for(lambda: time.time() > due, "the time at which tasks are due")
        start_consumer(here)
        here.wait_for(lambda: here.ledger.count("ran") > 0, "the first task")
        here.server.kill_and_start()
        queue = application.huey
        here.wait_for(lambda: here.ledger.count("ran") >= jobs - WORKERS, "nearly all tasks")
        here.wait_for(
            lambda: queue.pending_count() + queue.scheduled_count() == 0, "an empty queue"
        )
        here.stop_workers()
        verify(here.ledger, lost_at_most=WORKERS, twice_at_most=1)


@pytest.mark.parametrize("backend", ["pool", "aof"])
def test_no_scheduled_task_is_lost(backend, jobs, monkeypatch):
    check_schedule(backend, jobs, monkeypatch)


def test_a_schedule_that_is_forgotten_is_noticed(few_jobs, monkeypatch):
    with pytest.raises(Lost):
        check_schedule("volatile", few_jobs, monkeypatch)
