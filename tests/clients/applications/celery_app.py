"""An application over Celery: `celery --app celery_app worker`, and this program as a producer."""

import os

from celery import Celery, chord
from kombu.exceptions import OperationalError

import producer

app = Celery("celery_app", broker=os.environ["CLIENTS_URL"], backend=os.environ["CLIENTS_URL"])
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_transport_options={
        # A message that is not acknowledged for this many seconds is queued again.
        "visibility_timeout": 8,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
    # A publication is not repeated: its caller decides.
    task_publish_retry=False,
    worker_hijack_root_logger=False,
)


@app.task
def record(job):
    producer.ledger.execute(job)


@app.task
def part_of(job, part):
    producer.ledger.add("part", job)
    return part


@app.task
def collect(parts, job):
    assert parts == [0, 1, 2], parts
    producer.ledger.execute(job)


def queue(job):
    # Every tenth job is a chord: what follows from three others, counted by a script.
    if job % 10 == 0:
        chord([part_of.s(job, part) for part in range(3)])(collect.s(job))
    else:
        record.delay(job)


def main():
    producer.produce(queue, OperationalError)


if __name__ == "__main__":
    import celery_app

    celery_app.main()
