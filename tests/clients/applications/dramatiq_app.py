"""An application over dramatiq: `dramatiq dramatiq_app`, and this program as a producer."""

import os

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker

import producer

# Maintenance (what belongs to workers without a heartbeat is queued again) at every tenth fetch.
broker = RedisBroker(
    url=os.environ["CLIENTS_URL"], heartbeat_timeout=2000, maintenance_chance=100_000
)
dramatiq.set_broker(broker)


@dramatiq.actor(min_backoff=50, max_backoff=500)
def record(job):
    producer.ledger.execute(job)


def queue(job):
    # Every fifth takes the way over the queue of delayed messages.
    record.send_with_options(args=(job,), delay=100 if job % 5 == 0 else None)


if __name__ == "__main__":
    producer.produce(queue, redis.ConnectionError)
