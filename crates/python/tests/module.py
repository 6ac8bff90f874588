"""Tests of the module: python3 tests/module.py PATH_OF_THE_BUILT_LIBRARY.

The library that Cargo builds is copied under the name that Python imports. No package is needed.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

LIBRARY = os.path.abspath(sys.argv[1])
PLACE = os.environ.get("PERDURA_MODULE") or tempfile.mkdtemp()
if "PERDURA_MODULE" not in os.environ:
    shutil.copy(LIBRARY, os.path.join(PLACE, "perdura.abi3.so"))
sys.path.insert(0, PLACE)

import perdura  # noqa: E402


def open_pool(folder, **options):
    """Opens what survives kill -9, without persistent memory or a journal."""
    return perdura.open(os.path.join(folder, "pool"), domain="process", limit=64 << 20, **options)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name


class Calls(Folder):
    def test_a_store_is_used_like_a_dictionary_of_bytes(self):
        with open_pool(self.folder) as store:
            store["greeting"] = "hello"
            store[b"a\0b"] = bytearray(b"\0")
            store["grün"] = b""
            self.assertEqual(store["greeting"], b"hello")
            self.assertEqual(store["a\0b"], b"\0")
            self.assertEqual(store["grün".encode()], b"")
            self.assertEqual((len(store), "greeting" in store, "other" in store), (3, True, False))
            self.assertEqual(set(store), {b"greeting", b"a\0b", "grün".encode()})
            del store["greeting"]
            for missing in (lambda: store["greeting"], lambda: store.__delitem__("greeting")):
                with self.assertRaises(KeyError) as raised:
                    missing()
                self.assertEqual(raised.exception.args, ("greeting",))
            with self.assertRaises(TypeError):
                store[7] = "seven"
        with open_pool(self.folder, create=False) as store:
            self.assertEqual(len(store), 2)

    def test_calls(self):
        with perdura.open(None) as store:
            self.assertIsNone(store.get("a"))
            self.assertEqual(store.get("a", 7), 7)
            store.set("a", "1")
            self.assertEqual((store.get("a"), store.incr("a"), store.incr("a", 40)), (b"1", 2, 42))
            self.assertEqual((store.delete("a"), store.delete("a")), (True, False))
            store.set("short", "x", ttl=0.05)
            store.set("long", "x", ttl=60)
            time.sleep(0.1)
            self.assertEqual((store.get("short"), store.get("long")), (None, b"x"))
            store.flush()
            for ttl in (-1, float("nan")):
                with self.assertRaises(ValueError):
                    store.set("a", "1", ttl=ttl)

    def test_an_iterator_holds_no_lock(self):
        with perdura.open(None) as store:
            for n in range(500):
                store[f"user:{n}"] = str(n)
                store[f"page:{n}"] = ""
            seen = []
            for key in store.keys(prefix="user:"):
                seen.append(int(store[key]))
                store.incr("seen")
            self.assertEqual((sorted(seen), store["seen"]), (list(range(500)), b"500"))
            self.assertEqual(sum(1 for _ in store.keys("page:1")), 111)

    def test_errors(self):
        with open_pool(self.folder) as store:
            store["text"] = "hello"
            with self.assertRaises(perdura.WrongType) as raised:
                store.incr("text")
            self.assertIsInstance(raised.exception, perdura.Error)
            with self.assertRaises(perdura.Full):
                store["large"] = bytes(80 << 20)
            self.assertEqual(len(store), 1)
        for closed in (lambda: store["text"], lambda: len(store), lambda: iter(store)):
            with self.assertRaises(perdura.Closed):
                closed()
        store.close()
        with self.assertRaises(perdura.OpenError):
            perdura.open("/nowhere/at/all/pool")
        with self.assertRaises(ValueError):
            perdura.open(None, domain="battery")


class Threads(Folder):
    def test_a_call_that_waits_lets_other_threads_run(self):
        with open_pool(self.folder):
            ended, rounds = threading.Event(), []

            def count():
                while not ended.wait(0.01):
                    rounds.append(1)

            counting = threading.Thread(target=count)
            counting.start()
            try:
                # It waits for some seconds for the file, in one call.
                with self.assertRaises(perdura.Locked):
                    open_pool(self.folder)
            finally:
                ended.set()
                counting.join()
            self.assertGreater(len(rounds), 50)


class Transactions(Folder):
    def setUp(self):
        self.store = perdura.open(None)
        self.addCleanup(self.store.close)

    def test_all_or_nothing(self):
        store = self.store

        def transfer(tx):
            tx.incr("anna", -30)
            tx.incr("ben", 30)
            tx["last"] = "ben"
            return tx.get("anna"), tx["last"], tx.get("nobody", 7), "ben" in tx, tx.delete("last")

        self.assertEqual(store.transaction(transfer), (b"-30", b"ben", 7, True, True))
        self.assertEqual((store["anna"], store["ben"], len(store)), (b"-30", b"30", 2))

        def failing(tx):
            tx.incr("anna", 1000)
            del tx["ben"]
            raise RuntimeError("no")

        with self.assertRaisesRegex(RuntimeError, "no"):
            store.transaction(failing)
        self.assertEqual((store["anna"], store["ben"]), (b"-30", b"30"))
        with self.assertRaises(KeyError):
            store.transaction(lambda tx: tx["nobody"])

    def test_a_handled_error_undoes_its_own_call_alone(self):
        def careful(tx):
            tx.set("text", "hello")
            try:
                tx.incr("text")
            except perdura.WrongType:
                tx.set("failed", "yes")

        self.store.transaction(careful)
        self.assertEqual((self.store["text"], self.store["failed"]), (b"hello", b"yes"))

    def test_a_handle_ends_with_its_function_and_is_one_of_its_thread(self):
        kept = []
        self.store.transaction(kept.append)
        with self.assertRaises(perdura.Closed):
            kept[0].get("a")

        def elsewhere(tx):
            raised = []

            def use():
                try:
                    tx.set("a", "1")
                except perdura.Closed as error:
                    raised.append(error)

            thread = threading.Thread(target=use)
            thread.start()
            thread.join()
            return len(raised)

        self.assertEqual(self.store.transaction(elsewhere), 1)
        # Inside of the function of another one.
        with perdura.open(None) as other:

            def nested(tx):
                def inner(_):
                    with self.assertRaises(perdura.Closed):
                        tx.set("a", "1")

                other.transaction(inner)
                tx.set("a", "2")

            self.store.transaction(nested)
        self.assertEqual(self.store["a"], b"2")

    def test_the_store_is_refused_inside_and_may_be_closed(self):
        def reentrant(tx):
            tx.set("a", "1")
            with self.assertRaises(perdura.Error):
                self.store.get("a")
            self.store.close()
            tx.set("b", "2")

        store = open_pool_of(self)
        self.store, before = store, self.store
        before.close()
        store.transaction(reentrant)
        with self.assertRaises(perdura.Closed):
            store.get("a")
        with open_pool_of(self) as store:
            self.assertEqual((store["a"], store["b"]), (b"1", b"2"))

    def test_threads_share_a_store(self):
        """Nobody waits for the global lock while holding one of the store, nor the reverse."""
        store, threads, rounds = self.store, 4, 300

        def work(number):
            for n in range(rounds):
                a, b = f"account:{n % 3}", f"account:{(n + number) % 3}"

                def transfer(tx):
                    tx.incr(a, -1)
                    tx.incr(b, 1)
                    tx.incr("made")

                store.transaction(transfer)
                store.incr("calls")

        working = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join(60)
            self.assertFalse(thread.is_alive(), "threads that wait for each other")
        balance = sum(store.incr(f"account:{n}", 0) for n in range(3))
        expected = str(threads * rounds).encode()
        self.assertEqual((balance, store["made"], store["calls"]), (0, expected, expected))


def open_pool_of(test):
    if not hasattr(test, "place"):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        test.place = folder.name
    return open_pool(test.place)


class Kill(Folder):
    def test_what_a_call_acknowledged_survives_kill_9(self):
        environment = dict(os.environ, PERDURA_MODULE=PLACE)
        command = [sys.executable, os.path.abspath(__file__), LIBRARY, "write", self.folder]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        acknowledged = 0
        # Everything that it wrote is read, also what was in the pipe when it was killed.
        for line in writer.stdout:
            acknowledged = int(line)
            if acknowledged == 2000:
                writer.send_signal(signal.SIGKILL)
        writer.stdout.close()
        self.assertEqual(writer.wait(), -signal.SIGKILL)
        self.assertGreaterEqual(acknowledged, 2000)
        with open_pool(self.folder, create=False) as store:
            made = store.incr("made", 0)
            self.assertGreaterEqual(made, acknowledged)
            self.assertEqual((store.incr("anna", 0), store.incr("ben", 0)), (-made, made))


def write_until_killed(folder):
    store = open_pool(folder)

    def transfer(tx):
        tx.incr("anna", -1)
        tx.incr("ben", 1)
        return tx.incr("made")

    while True:
        print(store.transaction(transfer), flush=True)


if __name__ == "__main__":
    if sys.argv[2:3] == ["write"]:
        write_until_killed(sys.argv[3])
    try:
        unittest.main(argv=sys.argv[:1])
    finally:
        shutil.rmtree(PLACE)
