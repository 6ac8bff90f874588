"""RQ promises at most once, and that no job vanishes: a job moves from its queue to an intermediate
queue, from there to the registry of started jobs, and at its end to the registry of finished or of
failed jobs. One whose worker was interrupted stays where it is, or counts as failed.

So nothing may be executed twice. Of what was queued, each worker may leave one job unexecuted for
each kill, and RQ must still know that one. Two thirds of the jobs are queued by a script, a third
has to get a slot of a rate limit, by scripts whose keys are made from values that they read.
"""

import sys
from pathlib import Path

import pytest
import redis
import rq
from rq.intermediate_queue import IntermediateQueue

from harness import MODULE, Lost, stage, verify

WORKERS = 2


def is_idle(queue):
    waiting = queue.connection.zcard("rq:rl:every third:rate_limited")
    return queue.count + waiting == 0


def account(ledger, queue):
    """What was queued and not executed is known as interrupted."""
    known = set(IntermediateQueue(queue.key, queue.connection).get_job_ids())
    known.update(queue.started_job_registry.get_job_ids(cleanup=False))
    known.update(queue.failed_job_registry.get_job_ids(cleanup=False))
    vanished = set(ledger.jobs("sent")) - set(ledger.jobs("ran")) - known
    if vanished:
        raise Lost(f"queued, not executed, and unknown to RQ: {sorted(vanished)}")


def check(backend, jobs, kills):
    with stage(backend) as here:
        program = Path(sys.executable).with_name("rq")
        arguments = ["--num-workers", str(WORKERS), "--worker-class", "rq_app.Worker"]
        here.worker(program, "worker-pool", "--url", here.server.url, *arguments)
        producer = here.spawn(*MODULE, "rq_app")
        here.kill_under_load(producer, jobs, kills)
        queue = rq.Queue(connection=redis.Redis.from_url(here.server.url))
        here.wait_for(lambda: is_idle(queue), "an empty queue")
        here.stop_workers()
        account(here.ledger, queue)
        verify(here.ledger, lost_at_most=WORKERS * kills)


@pytest.mark.parametrize("backend", ["pool", "aof"])
def test_no_job_vanishes(backend, jobs, kills):
    check(backend, jobs, kills)


def test_a_server_that_forgets_is_noticed(few_jobs):
    with pytest.raises(Lost):
        check("volatile", few_jobs, 1)
