"""A visual client: Redis Commander, which shows and changes a store in a browser. Its program runs
as it does for its users; what a browser would send to it is sent here.

Compared are its views of Perdura and of redis-server with the same data, and what both reply to the
requests by which such clients show a server.
"""

import json
import os
import pathlib
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request

import pytest

from harness import free_port, stage

MODULES = pathlib.Path(os.environ.get("NODE_PATH", "node_modules"))
PROGRAM = MODULES / "redis-commander" / "bin" / "redis-commander.js"

DATA = [
    ("SET", "text", "value"),
    ("SET", "expiring", "soon", "EX", "3600"),
    ("SET", "folder:one", "1"),
    ("SET", "folder:two", "2"),
    ("RPUSH", "list", "a", "b"),
    ("SADD", "set", "only"),
    ("ZADD", "sorted", "1", "low", "2.5", "high"),
    ("HSET", "hash", "field", "value"),
    ("XADD", "stream", "1-1", "field", "value"),
]

# What a tree, a status page, an analysis and a profiler of such a client ask for, typed into the
# console of this one. Their replies are the same as Redis's.
SAME = [
    "SCAN 0 TYPE string COUNT 1000",
    "SCAN 0 MATCH folder:* COUNT 1000 TYPE string",
    "DBSIZE",
    "TYPE list",
    "PTTL text",
    "OBJECT ENCODING list",
    "OBJECT REFCOUNT list",
    "HSCAN hash 0 COUNT 10",
    "ZSCAN sorted 0",
    "STRLEN text",
    "XINFO GROUPS stream",
    "CONFIG GET maxmemory",
    "CONFIG GET databases",
    "CONFIG GET notify-keyspace-events",
    "MODULE LIST",
    "FT._LIST",
    "JSON.TYPE text",
    "CLUSTER INFO",
    "LATENCY LATEST",
    "LATENCY HISTORY command",
    "SLOWLOG LEN",
    "SLOWLOG RESET",
    "PUBSUB CHANNELS",
    "PUBSUB NUMSUB news",
    "COMMAND DOCS GET",
    "COMMAND INFO GET",
    "ACL WHOAMI",
    "ACL CAT",
    "FUNCTION LIST",
    "CLIENT GETNAME",
    "ROLE",
]
# Commands whose replies differ: docs/compatibility.md.
DIFFERENT = set()

# Replies that are about the server: what a client looks for in them.
FIELDS = {
    "INFO": [
        "redis_version", "redis_mode", "os", "process_id", "tcp_port", "uptime_in_seconds",
        "connected_clients", "blocked_clients", "used_memory", "used_memory_human",
        "used_memory_peak", "used_memory_rss", "used_memory_lua", "mem_fragmentation_ratio",
        "maxmemory", "maxmemory_policy", "loading", "rdb_last_save_time", "aof_enabled",
        "total_connections_received", "total_commands_processed", "instantaneous_ops_per_sec",
        "instantaneous_input_kbps", "keyspace_hits", "keyspace_misses", "evicted_keys",
        "expired_keys", "role", "connected_slaves", "used_cpu_sys", "used_cpu_user",
        "cluster_enabled", "db0",
    ],
    "INFO everything": ["cmdstat_set", "errorstat_ERR", "latency_percentiles_usec_set"],
    "CLIENT LIST": ["id", "addr", "name", "age", "idle", "flags", "db", "cmd", "user", "resp"],
}  # fmt: skip


class Commander:
    """Redis Commander, connected to the server of a stage."""

    def __init__(self, here):
        port = free_port()
        self.site = f"http://127.0.0.1:{port}"
        self.connection = f"R:127.0.0.1:{here.server.port}:0"
        here.spawn(
            *("node", str(PROGRAM), "--noload", "--nosave", "--address", "127.0.0.1"),
            *("--port", str(port), "--redis-host", "127.0.0.1"),
            *("--redis-port", str(here.server.port)),
            HOME=str(here.folder),
        )
        here.wait_for(self.is_connected, "a connection of Redis Commander")

    def open(self, path, method="GET", **form):
        data = urllib.parse.urlencode(form).encode() if form else None
        request = urllib.request.Request(f"{self.site}/{path}", data=data, method=method)
        browser = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with browser.open(request, timeout=60) as response:
            return response.read().decode()

    def get(self, view, rest=""):
        return json.loads(self.open(f"apiv2/{view}/{self.connection}{rest}"))

    def type(self, request):
        """What the console shows for a request."""
        reply = self.open(f"apiv2/exec/{self.connection}", "POST", cmd=request)
        return json.loads(reply)["data"]

    def save(self, key, value):
        self.open(f"apiv2/key/{self.connection}/{key}", "POST", keyType="string", stringValue=value)

    def rename(self, key, new):
        self.open(f"apiv2/key/{self.connection}/{key}", "PATCH", key=new)

    def delete(self, key):
        self.open(f"apiv2/key/{self.connection}/{key}?action=delete", "POST")

    def is_connected(self):
        try:
            return json.loads(self.open("apiv2/connection")) is True
        except urllib.error.URLError:
            return False


def view(backend):
    """What Redis Commander shows of a server with some data, and while it changes that."""
    with stage(backend) as here:
        commander = Commander(here)
        with here.server.client() as client:
            for request in DATA:
                client.execute_command(*request)
        (shown,) = json.loads(commander.open("apiv2/server/info"))["data"]
        assert not shown.get("error") and shown["info"]
        views = {"tree": [{**node, "id": None} for node in commander.get("keystree")["data"]]}
        for key in ("text", "folder:one", "list", "set", "sorted", "hash", "stream", "missing"):
            views[f"key {key}"] = commander.get("key", f"/{key}")
        for request in SAME:
            reply = commander.type(request)
            # The order of keys is the server's own.
            views[request] = sorted(reply[1]) if request.startswith("SCAN") else reply
        for request, fields in FIELDS.items():
            missing = [field for field in fields if not has(commander.type(request), field)]
            assert not missing, f"{request} has no {missing}"
        # What costs what depends on the server.
        assert 16 < commander.type("MEMORY USAGE text SAMPLES 0") < 200
        commander.save("new", "a value")
        commander.rename("folder:two", "renamed")
        commander.delete("folder:one")
        for key in ("new", "renamed", "folder:one"):
            views[f"changed {key}"] = commander.get("key", f"/{key}")
        here.server.kill_and_start()
        here.wait_for(commander.is_connected, "another connection of Redis Commander")
        views["keys after kill"] = sorted(key.decode() for key in keys_of(here))
        return views


def keys_of(here):
    with here.server.client() as client:
        return client.keys()


def has(text, field):
    return re.search(rf"(^|\s){field}[:=]", text)


def test_a_visual_client_shows_what_redis_has():
    if not shutil.which("redis-server"):
        pytest.skip("redis-server: SKIPPED, nothing was compared: it is missing")
    ours, theirs = view("pool"), view("redis-server")
    # redis-server was started without a way to persist.
    kept = ours.pop("keys after kill")
    theirs.pop("keys after kill")
    before = {request[1] for request in DATA}
    assert kept == sorted(before - {"folder:one", "folder:two"} | {"new", "renamed"})
    different = {name: (ours[name], theirs[name]) for name in theirs if ours[name] != theirs[name]}
    assert set(different) == DIFFERENT, different
