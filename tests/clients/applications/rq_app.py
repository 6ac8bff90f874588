"""An application over RQ: `rq worker-pool`, and this program as a producer."""

import os

import redis
import rq

import producer

# More slots than jobs whose worker can be interrupted: those keep theirs for minutes.
LIMIT = rq.RateLimit("every third", concurrency=20)


class Worker(rq.Worker):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **{**options, "maintenance_interval": 2})


def record(job):
    producer.ledger.execute(job)


def main():
    queue = rq.Queue(connection=redis.Redis.from_url(os.environ["CLIENTS_URL"]))

    def enqueue(job):
        if job % 3 == 0:
            queue.enqueue(record, job, job_id=str(job), rate_limit=LIMIT)
        else:
            queue.enqueue(record, job, job_id=str(job), unique=True)

    producer.produce(enqueue, redis.ConnectionError)


if __name__ == "__main__":
    # The worker imports what it executes by the name of this module.
    import rq_app

    rq_app.main()
