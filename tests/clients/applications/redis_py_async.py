"""The scenarios of scenarios.py by the asyncio client of redis-py."""

import asyncio
import json
import os
import sys

import redis
from redis import asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from harness import Ledger
from redis_py import PROTOCOL, TLS_URL, URL, entries, name


def connect(**options):
    return aioredis.Redis.from_url(URL, protocol=PROTOCOL, decode_responses=True, **options)


def connect_tls():
    return aioredis.Redis.from_url(
        TLS_URL,
        protocol=PROTOCOL,
        decode_responses=True,
        ssl_ca_certs=os.environ["CLIENTS_CA"],
        retry=Retry(NoBackoff(), 0),
    )


async def code(request):
    """The first word of the error that the server replies."""
    try:
        await request
    except redis.RedisError as error:
        return name(error)
    return None


async def until(condition):
    while not await condition():
        await asyncio.sleep(0.01)


async def connection(_):
    async with connect(client_name="reader", db=3) as client:
        info = await client.client_info()
    return [info["name"], int(info["db"]), int(info["resp"])]


async def values(client):
    return [
        bool(await client.set("value", "one", ex=100, nx=True)),
        bool(await client.set("value", "two", nx=True)),
        await client.mget("value", "missing"),
        await client.incr("number"),
        1 <= await client.ttl("value") <= 100,
        await client.delete("value", "number", "missing"),
    ]


async def binary(_):
    key, value = bytes(range(256)), bytes(range(256)) * 4096
    async with aioredis.Redis.from_url(URL, protocol=PROTOCOL) as client:
        await client.set(key, value)
        return [await client.strlen(key), await client.get(key) == value]


async def types(client):
    await client.hset("hash", mapping={"a": "1", "b": "2"})
    await client.rpush("list", "x", "y")
    await client.sadd("set", "p", "q")
    await client.zadd("sorted", {"low": 1, "high": 2.5})
    return [
        await client.hgetall("hash"),
        await client.lrange("list", 0, -1),
        sorted(await client.smembers("set")),
        [list(pair) for pair in await client.zrange("sorted", 0, -1, withscores=True)],
    ]


async def pipeline(client):
    pipe = client.pipeline(transaction=False)
    for _ in range(1000):
        pipe.incr("count")
    pipe.lpush("count", "x").get("count")
    replies = await pipe.execute(raise_on_error=False)
    return [replies[999], name(replies[1000]), replies[1001]]


async def transaction(client):
    done = await client.pipeline().set("watched", "1").incr("watched").execute()
    aborted = False
    async with client.pipeline() as pipe:
        await pipe.watch("watched")
        await client.set("watched", "other")
        pipe.multi()
        pipe.set("watched", "mine")
        try:
            await pipe.execute()
        except redis.WatchError:
            aborted = True
    return [done[1], aborted, await client.get("watched")]


async def pubsub(client):
    async with client.pubsub() as subscriber:
        await subscriber.subscribe("news")
        await subscriber.psubscribe("n?ws")
        messages = subscriber.listen()
        for _ in range(2):
            await anext(messages)
        receivers = await client.publish("news", "hello")
        message, by_pattern = await anext(messages), await anext(messages)

    async def has_ended():
        return await client.publish("news", "nobody") == 0

    await until(has_ended)
    return [
        receivers,
        [message["channel"], message["data"]],
        [by_pattern["pattern"], by_pattern["channel"], by_pattern["data"]],
    ]


async def blocking(client):
    async def is_blocked():
        return (await client.info("clients"))["blocked_clients"]

    nothing = await client.blpop("queue", timeout=0.1)
    popped = asyncio.create_task(client.blpop("queue", timeout=60))
    await until(is_blocked)
    await client.rpush("queue", "job")
    await client.zadd("urgent", {"first": 1})
    return [nothing, list(await popped), list(await client.bzpopmin("urgent", timeout=1))]


async def scripts(client):
    script = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    first = await script(keys=["scripted"], args=[40])
    await client.script_flush()
    second = await script(keys=["scripted"], args=[2])
    await client.function_load(
        "#!lua name=greetings\nredis.register_function('greet', function(keys, args)"
        " return 'hello ' .. args[1] end)"
    )
    error = await code(client.eval("return redis.error_reply('MINE it is')", 0))
    return [first, second, error, await client.fcall("greet", 0, "you")]


async def streams(client):
    await client.xgroup_create("stream", "group", id="0", mkstream=True)
    for number in (1, 2, 3):
        await client.xadd("stream", {"n": number}, id=f"{number}-1")
    read = entries(await client.xreadgroup("group", "alice", {"stream": ">"}, count=2))
    acknowledged = await client.xack("stream", "group", "1-1")
    pending = await client.xpending("stream", "group")
    claimed = (await client.xautoclaim("stream", "group", "bob", min_idle_time=0))[1]
    rest = entries(await client.xreadgroup("group", "bob", {"stream": ">"}, block=1000))
    return [
        [[entry, fields] for entry, fields in read],
        acknowledged,
        [pending["pending"], pending["min"], pending["max"]],
        [entry for entry, _ in claimed],
        [entry for entry, _ in rest],
        await client.xlen("stream"),
    ]


async def scans(client):
    async def count(found):
        return len({item async for item in found})

    names = [f"scan:{number}" for number in range(1000)]
    await client.mset({key: "x" for key in names})
    await client.hset("scanned:hash", mapping={key: "x" for key in names})
    await client.sadd("scanned:set", *names)
    await client.zadd("scanned:sorted", {key: 1 for key in names})
    return [
        await count(client.scan_iter("scan:*", count=100, _type="string")),
        await count(client.hscan_iter("scanned:hash", count=100)),
        await count(client.sscan_iter("scanned:set", count=100)),
        await count(client.zscan_iter("scanned:sorted", count=100)),
    ]


async def tls(_):
    wrong = aioredis.Redis.from_url(URL, protocol=PROTOCOL, username="app", password="wrong")
    async with connect_tls() as client:
        await client.set("app:key", "one")
        return [
            await client.acl_whoami(),
            await client.get("app:key"),
            await code(client.get("key")),
            await code(client.flushall()),
            await code(wrong.ping()),
        ]


async def caching(_):
    return None  # The asyncio client has no cache.


SCENARIOS = [connection, values, binary, types, pipeline, transaction, pubsub, blocking, scripts]
SCENARIOS += [streams, scans, tls, caching]


async def run_scenarios():
    async with connect() as client:
        for scenario in SCENARIOS:
            print(scenario.__name__, json.dumps(await scenario(client)), flush=True)


async def run_writes():
    ledger = Ledger(os.environ["CLIENTS_LEDGER"])
    client, number = connect_tls(), 0
    while not ledger.jobs("stop"):
        number += 1
        try:
            await client.set(f"app:write:{number}", number)
            ledger.add("sent", number)
        except redis.RedisError:
            ledger.add("unsure", number)
            await asyncio.sleep(0.01)


asyncio.run({"scenarios": run_scenarios, "writes": run_writes}[sys.argv[1]]())
