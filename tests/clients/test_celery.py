"""Celery with acks_late promises at least once, from the moment in which a message was received:
its transport pops a message, and records in a second step that it is not acknowledged. What is not
acknowledged within the visibility timeout is queued again. A chord is counted by a script after
each of its parts; a part that could not be counted is reported as failed, and its chord never
completes.

So for each kill one message may be lost, and the chords whose parts were executing. Executed twice
is what was not acknowledged at a kill: each process has one task, and one that was fetched for it.

A worker may hang for ever after it has lost its connection: its transport uses a channel that is
closed (kombu's issues 582 and 970, Celery's 8030 and 9054). It is replaced, which counts as a kill.
"""

import pytest

from harness import MODULE, Lost, stage, verify

PROCESSES = 2


def check(backend, jobs, kills):
    with stage(backend, queue="celery") as here:
        arguments = ["--concurrency", str(PROCESSES), "--loglevel", "INFO"]
        here.worker(*MODULE, "celery", "--app", "celery_app", "worker", *arguments)
        producer = here.spawn(*MODULE, "celery_app")
        here.kill_under_load(producer, jobs, kills)
        client = here.server.client()
        here.wait_for(lambda: client.llen("celery") + client.hlen("unacked") == 0, "an empty queue")
        here.stop_workers()
        kills += here.hangs
        lost_at_most = (1 + PROCESSES) * kills
        verify(here.ledger, lost_at_most=lost_at_most, twice_at_most=2 * PROCESSES * kills)


@pytest.mark.parametrize("backend", ["pool", "aof"])
def test_no_task_is_lost(backend, jobs, kills):
    check(backend, jobs, kills)


def test_a_server_that_forgets_is_noticed(few_jobs):
    with pytest.raises(Lost):
        check("volatile", few_jobs, 1)
