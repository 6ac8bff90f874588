"""dramatiq promises at least once: each step of a message is one script, and a message that was
fetched stays in the store until it is acknowledged. One that was fetched by a reply that got lost
is executed when its worker has no heartbeat any more.

So nothing that was queued may be lost. A message is executed twice if it was executed and the kill
interrupted its acknowledgement: each thread of the worker has one at most.
"""

import pytest
from dramatiq.brokers.redis import RedisBroker

from harness import MODULE, Lost, stage, verify

THREADS = 4


def check(backend, jobs, kills, monkeypatch):
    # A worker connects again after this many milliseconds, not three seconds.
    monkeypatch.setenv("dramatiq_restart_delay", "200")
    with stage(backend) as here:
        broker = RedisBroker(url=here.server.url)
        threads = ["--processes", "1", "--threads", str(THREADS)]
        worker = [*MODULE, "dramatiq", "dramatiq_app", *threads]
        here.worker(*worker)
        producer = here.spawn(*MODULE, "dramatiq_app")
        here.kill_under_load(producer, jobs, kills)
        # What is left belongs to a reply that got lost: the next worker takes it over.
        here.stop_workers()
        here.worker(*worker)
        here.wait_for(lambda: broker.do_qsize("default") == 0, "an empty queue")
        here.stop_workers()
        verify(here.ledger, twice_at_most=THREADS * kills)


@pytest.mark.parametrize("backend", ["pool", "aof"])
def test_no_message_is_lost(backend, jobs, kills, monkeypatch):
    check(backend, jobs, kills, monkeypatch)


def test_a_server_that_forgets_is_noticed(few_jobs, monkeypatch):
    # A worker may have fetched all that waits, so that a single kill makes nobody lose anything.
    with pytest.raises(Lost):
        check("volatile", few_jobs, 4, monkeypatch)
