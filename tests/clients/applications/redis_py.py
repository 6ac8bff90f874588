"""The scenarios of scenarios.py by redis-py: `redis_py scenarios` or `redis_py writes`."""

import json
import os
import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from harness import Ledger, wait_for

PROTOCOL = int(os.environ["CLIENTS_PROTOCOL"])
URL = os.environ["CLIENTS_URL"]
TLS_URL = os.environ["CLIENTS_TLS_URL"]


def connect(**options):
    return redis.Redis.from_url(URL, protocol=PROTOCOL, decode_responses=True, **options)


def connect_tls(**options):
    return redis.Redis.from_url(
        TLS_URL,
        protocol=PROTOCOL,
        decode_responses=True,
        ssl_ca_certs=os.environ["CLIENTS_CA"],
        retry=Retry(NoBackoff(), 0),
        **options,
    )


def code(request):
    """The first word of the error that the server replies."""
    try:
        request()
    except redis.RedisError as error:
        return name(error)
    return None


def name(error):
    # redis-py takes the word off some errors, and has classes for them.
    classes = {redis.exceptions.NoPermissionError: "NOPERM", redis.AuthenticationError: "WRONGPASS"}
    return classes.get(type(error)) or str(error).split()[0]


def connection(_):
    info = connect(client_name="reader", db=3).client_info()
    return [info["name"], int(info["db"]), int(info["resp"])]


def values(client):
    return [
        bool(client.set("value", "one", ex=100, nx=True)),
        bool(client.set("value", "two", nx=True)),
        client.mget("value", "missing"),
        client.incr("number"),
        1 <= client.ttl("value") <= 100,
        client.delete("value", "number", "missing"),
    ]


def binary(_):
    client = redis.Redis.from_url(URL, protocol=PROTOCOL)
    key, value = bytes(range(256)), bytes(range(256)) * 4096
    client.set(key, value)
    return [client.strlen(key), client.get(key) == value]


def types(client):
    client.hset("hash", mapping={"a": "1", "b": "2"})
    client.rpush("list", "x", "y")
    client.sadd("set", "p", "q")
    client.zadd("sorted", {"low": 1, "high": 2.5})
    return [
        client.hgetall("hash"),
        client.lrange("list", 0, -1),
        sorted(client.smembers("set")),
        [list(pair) for pair in client.zrange("sorted", 0, -1, withscores=True)],
    ]


def pipeline(client):
    pipe = client.pipeline(transaction=False)
    for _ in range(1000):
        pipe.incr("count")
    pipe.lpush("count", "x").get("count")
    replies = pipe.execute(raise_on_error=False)
    return [replies[999], name(replies[1000]), replies[1001]]


def transaction(client):
    done = client.pipeline().set("watched", "1").incr("watched").execute()
    aborted = False
    with client.pipeline() as pipe:
        pipe.watch("watched")
        connect().set("watched", "other")
        pipe.multi()
        pipe.set("watched", "mine")
        try:
            pipe.execute()
        except redis.WatchError:
            aborted = True
    return [done[1], aborted, client.get("watched")]


def pubsub(client):
    subscriber = client.pubsub()
    subscriber.subscribe("news")
    subscriber.psubscribe("n?ws")
    messages = subscriber.listen()
    for _ in range(2):
        next(messages)
    receivers = client.publish("news", "hello")
    message, by_pattern = next(messages), next(messages)
    subscriber.close()
    wait_for(lambda: client.publish("news", "nobody") == 0, "the end of the subscriptions")
    return [
        receivers,
        [message["channel"], message["data"]],
        [by_pattern["pattern"], by_pattern["channel"], by_pattern["data"]],
    ]


def blocking(client):
    nothing = client.blpop("queue", timeout=0.1)
    popped = []
    waiting = threading.Thread(target=lambda: popped.append(connect().blpop("queue", timeout=60)))
    waiting.start()
    wait_for(lambda: client.info("clients")["blocked_clients"], "a blocked client")
    client.rpush("queue", "job")
    waiting.join()
    client.zadd("urgent", {"first": 1})
    return [nothing, list(popped[0]), list(client.bzpopmin("urgent", timeout=1))]


def scripts(client):
    script = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    first = script(keys=["scripted"], args=[40])
    client.script_flush()
    second = script(keys=["scripted"], args=[2])
    client.function_load(
        "#!lua name=greetings\nredis.register_function('greet', function(keys, args)"
        " return 'hello ' .. args[1] end)"
    )
    error = code(lambda: client.eval("return redis.error_reply('MINE it is')", 0))
    return [first, second, error, client.fcall("greet", 0, "you")]


def streams(client):
    client.xgroup_create("stream", "group", id="0", mkstream=True)
    for number in (1, 2, 3):
        client.xadd("stream", {"n": number}, id=f"{number}-1")
    read = entries(client.xreadgroup("group", "alice", {"stream": ">"}, count=2))
    acknowledged = client.xack("stream", "group", "1-1")
    pending = client.xpending("stream", "group")
    claimed = client.xautoclaim("stream", "group", "bob", min_idle_time=0)[1]
    rest = entries(client.xreadgroup("group", "bob", {"stream": ">"}, block=1000))
    return [
        [[entry, fields] for entry, fields in read],
        acknowledged,
        [pending["pending"], pending["min"], pending["max"]],
        [entry for entry, _ in claimed],
        [entry for entry, _ in rest],
        client.xlen("stream"),
    ]


def entries(reply):
    """The entries of the only stream: redis-py has a map of lists of them in RESP3."""
    return reply["stream"][0] if isinstance(reply, dict) else reply[0][1]


def scans(client):
    names = [f"scan:{number}" for number in range(1000)]
    client.mset({key: "x" for key in names})
    client.hset("scanned:hash", mapping={key: "x" for key in names})
    client.sadd("scanned:set", *names)
    client.zadd("scanned:sorted", {key: 1 for key in names})
    return [
        len(set(client.scan_iter("scan:*", count=100, _type="string"))),
        len(dict(client.hscan_iter("scanned:hash", count=100))),
        len(set(client.sscan_iter("scanned:set", count=100))),
        len(set(client.zscan_iter("scanned:sorted", count=100))),
    ]


def tls(_):
    client = connect_tls()
    client.set("app:key", "one")
    wrong = redis.Redis.from_url(URL, protocol=PROTOCOL, username="app", password="wrong")
    return [
        client.acl_whoami(),
        client.get("app:key"),
        code(lambda: client.get("key")),
        code(client.flushall),
        code(wrong.ping),
    ]


def caching(_):
    return None  # Its cache is for servers that say that they are Redis 7.4 or newer.


SCENARIOS = [connection, values, binary, types, pipeline, transaction, pubsub, blocking, scripts]
SCENARIOS += [streams, scans, tls, caching]


def run_scenarios():
    client = connect()
    for scenario in SCENARIOS:
        print(scenario.__name__, json.dumps(scenario(client)), flush=True)


def run_writes():
    ledger = Ledger(os.environ["CLIENTS_LEDGER"])
    client, number = connect_tls(), 0
    while not ledger.jobs("stop"):
        number += 1
        try:
            client.set(f"app:write:{number}", number)
            ledger.add("sent", number)
        except redis.RedisError:
            ledger.add("unsure", number)
            time.sleep(0.01)


if __name__ == "__main__":
    {"scenarios": run_scenarios, "writes": run_writes}[sys.argv[1]]()
