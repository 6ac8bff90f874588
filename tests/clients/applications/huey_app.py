"""An application over huey: `huey_consumer huey_app.huey`, and this program as a producer."""

import os

import redis
from huey import RedisHuey
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.retry import Retry

import producer

# The scheduler repeats a push while the server is away: what it has popped is nowhere else.
patient = Retry(ExponentialBackoff(cap=0.5, base=0.05), 200)
pool = redis.ConnectionPool.from_url(os.environ["CLIENTS_URL"], retry=patient)
huey = RedisHuey("clients", connection_pool=pool)


@huey.task()
def record(job):
    producer.ledger.execute(job)


def main():
    # Repeats nothing.
    huey.storage.conn.set_retry(Retry(NoBackoff(), 0))
    producer.produce(record, redis.ConnectionError)


if __name__ == "__main__":
    # The worker finds a task by the name of this module.
    import huey_app

    huey_app.main()
