"""The client libraries of five languages over what they use of the protocol: RESP2 and RESP3,
pipelines, transactions, pub/sub, blocking commands, scripts, streams, iterators, TLS with a user of
its own.

A library promises that an acknowledged write was executed, and finds the server again after it was
gone. So each write that it acknowledged is in the store after any number of kills.
"""

import json
import os
import pathlib
import shutil

import pytest
import trustme

from harness import APPLICATIONS, MODULE, Lost, free_port, stage
from scenarios import EXPECTED, expected

BUILT = pathlib.Path(os.environ.get("CLIENTS_BUILT", "target/clients"))

# What starts each program, and the protocols that its library speaks.
LIBRARIES = {
    "redis-py": ([*MODULE, "redis_py"], (2, 3)),
    "redis-py asyncio": ([*MODULE, "redis_py_async"], (2, 3)),
    "ioredis": (["node", APPLICATIONS / "ioredis.cjs"], (2,)),
    "node-redis": (["node", APPLICATIONS / "node_redis.cjs"], (2, 3)),
    "go-redis": ([BUILT / "go_redis"], (2, 3)),
    "Jedis": (["java", "-cp", f"{BUILT}/jedis:{BUILT}/jars/*", "JedisApp"], (2, 3)),
    "redis-rs": ([BUILT / "redis_rs"], (2, 3)),
}
ALL = [(library, version) for library, (_, spoken) in LIBRARIES.items() for version in spoken]

USER = ["app", "on", ">secret", "~app:*", "&*", "+@all", "-@dangerous"]


def secure(folder):
    """Makes certificates, and returns what a server with TLS and one more user is started with."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    (folder / "tls-port").write_text(str(free_port()))
    return [
        *("--tls-port", (folder / "tls-port").read_text()),
        *("--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem"),
        *("--tls-ca-cert-file", "ca.pem", "--tls-auth-clients", "no"),
        *("--user", *USER),
    ]


def start(here, library, protocol, what):
    """Starts the program of a library, or skips the test where its language is missing."""
    command = [str(part) for part in LIBRARIES[library][0]]
    needed = BUILT / "jedis" if library == "Jedis" else command[0]
    if not shutil.which(needed) and not pathlib.Path(needed).exists():
        pytest.skip(f"{library}: SKIPPED, nothing was tested: {needed} is missing")
    port = (here.folder / "tls-port").read_text()
    return here.spawn(
        *command,
        what,
        CLIENTS_URL=f"redis://127.0.0.1:{here.server.port}",
        CLIENTS_TLS_URL=f"rediss://app:secret@127.0.0.1:{port}",
        CLIENTS_CA=str(here.folder / "ca.pem"),
        CLIENTS_PROTOCOL=str(protocol),
    )


def finish(here, process):
    here.wait_for(lambda: process.poll() is not None, "the end of the program")
    assert process.returncode == 0, f"the program ended with {process.returncode}"


def check_scenarios(backend, library, protocol):
    with stage(backend, secure) as here:
        process = start(here, library, protocol, "scenarios")
        finish(here, process)
        lines = [line.split(" ", 1) for line in here.output(process).splitlines()]
        results = {line[0]: json.loads(line[1]) for line in lines if line[0] in EXPECTED}
        assert results == expected(library, protocol)


@pytest.mark.parametrize("library, protocol", ALL)
def test_a_library_gets_what_redis_replies(library, protocol):
    check_scenarios("pool", library, protocol)


@pytest.mark.parametrize("protocol", [2, 3])
def test_what_is_expected_is_what_redis_replies(protocol):
    if not shutil.which("redis-server"):
        pytest.skip("redis-server: SKIPPED, nothing was compared: it is missing")
    check_scenarios("redis-server", "redis-py", protocol)


def check_writes(backend, library, protocol, writes, kills):
    """Kills the server while a program writes over TLS, and looks for all that it acknowledged."""
    with stage(backend, secure) as here:
        process = start(here, library, protocol, "writes")
        for number in range(1, kills + 2):
            share = writes * number // (kills + 1)
            here.wait_for(lambda: here.ledger.count("sent") >= share, "acknowledged writes")
            if number <= kills:
                here.server.kill_and_start()
        here.ledger.add("stop", "now")
        finish(here, process)
        sent, unsure = here.ledger.jobs("sent"), here.ledger.jobs("unsure")
        with here.server.client() as client:
            stored = client.mget([f"app:write:{number}" for number in sent])
            other = client.mget([f"app:write:{number}" for number in unsure]) if unsure else []
        print(f"{len(sent)} acknowledged, {len(unsure)} unsure")
        lost = [number for number, value in zip(sent, stored) if value != number.encode()]
        if lost:
            raise Lost(f"acknowledged, but not stored: {lost}")
        for number, value in zip(unsure, other):
            assert value in (None, number.encode()), f"{value} is stored for {number}"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("backend", ["pool", "aof"])
def test_acknowledged_writes_survive(backend, library, jobs, kills):
    check_writes(backend, library, LIBRARIES[library][1][-1], jobs, kills)


def test_writes_that_are_forgotten_are_noticed(few_jobs):
    with pytest.raises(Lost):
        check_writes("volatile", "redis-py", 3, few_jobs, 1)
