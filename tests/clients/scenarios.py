"""What each client library is asked to do, and what must come of it: written once, for the programs
in all languages. A program prints a line for each: its name and the result as JSON.

The results are those that the libraries return, so far as they have the same form in all: maps as
objects, scores as numbers, errors by their first word.
"""

# `connection`: the name, database and protocol of a connection that asks for them, by CLIENT INFO.
# The protocol is the one that the program was started with.
PROTOCOL = "the protocol"

EXPECTED = {
    "connection": ["reader", 3, PROTOCOL],
    # SET with EX and NX, twice; MGET of it and of a missing key; INCR; a TTL in time; DEL.
    "values": [True, False, ["one", None], 1, True, 2],
    # A key of all bytes and a value of 1 MiB: its STRLEN, and that it is read as it was written.
    "binary": [1048576, True],
    # HGETALL, LRANGE, SMEMBERS, ZRANGE with scores: what differs between RESP2 and RESP3.
    "types": [{"a": "1", "b": "2"}, ["x", "y"], ["p", "q"], [["low", 1], ["high", 2.5]]],
    # A thousand INCR in one pipeline, then LPUSH to the same key, which fails alone, then GET.
    "pipeline": [1000, "WRONGTYPE", "1000"],
    # The second reply of MULTI; EXEC that is aborted, since WATCH saw a write of another.
    "transaction": [2, True, "other"],
    # PUBLISH to a SUBSCRIBE and a PSUBSCRIBE of one connection, and what both receive.
    "pubsub": [2, ["news", "hello"], ["n?ws", "news", "hello"]],
    # BLPOP that times out; one that another connection's RPUSH wakes; BZPOPMIN.
    "blocking": [None, ["queue", "job"], ["urgent", "first", 1]],
    # EVALSHA before the script is known, and after SCRIPT FLUSH; an error of a script; FCALL.
    "scripts": [40, 42, "MINE", "hello you"],
    # A group: two entries to alice, XACK, XPENDING, XAUTOCLAIM by bob, the rest to bob, XLEN.
    "streams": [
        [["1-1", {"n": "1"}], ["2-1", {"n": "2"}]],
        1,
        [1, "2-1", "2-1"],
        ["2-1"],
        ["3-1"],
        3,
    ],
    # Iterators over SCAN with MATCH and TYPE, HSCAN, SSCAN, ZSCAN: a thousand different items each.
    "scans": [1000, 1000, 1000, 1000],
    # TLS and the user `app`: ACL WHOAMI; GET of a key of its pattern and of another; FLUSHALL,
    # which it may not; a connection with a wrong password.
    "tls": ["app", "one", "NOPERM", "NOPERM", "WRONGPASS"],
    # Client-side caching: a value is read, and read again without the server; it is invalidated
    # when another connection writes it, or the program never ends.
    "caching": ["old", "old", True],
}

# Needs RESP3 and a library that has it. Those of redis-py and Jedis ask for a server that says that
# it is Redis 7.4 or newer, in INFO.
CACHING = {("node-redis", 3), ("redis-rs", 3)}


def expected(library, protocol):
    result = dict(EXPECTED)
    result["connection"] = ["reader", 3, protocol]
    if (library, protocol) not in CACHING:
        result["caching"] = None
    return result
