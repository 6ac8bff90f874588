// The scenarios of scenarios.py by Jedis: `java JedisApp scenarios` or `java JedisApp writes`.

import com.google.gson.GsonBuilder;
import java.io.FileInputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.*;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;
import redis.clients.jedis.*;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.exceptions.JedisNoScriptException;
import redis.clients.jedis.params.*;
import redis.clients.jedis.resps.*;

public class JedisApp {
    static final String PROTOCOL = System.getenv("CLIENTS_PROTOCOL");
    static final URI PLAIN = URI.create(System.getenv("CLIENTS_URL"));
    static final URI TLS = URI.create(System.getenv("CLIENTS_TLS_URL"));
    static final ExecutorService THREADS = Executors.newCachedThreadPool();

    interface Scenario {
        Object run(UnifiedJedis client) throws Exception;
    }

    static DefaultJedisClientConfig.Builder options() {
        return DefaultJedisClientConfig.builder()
            .protocol(PROTOCOL.equals("3") ? RedisProtocol.RESP3 : RedisProtocol.RESP2)
            .clientSetInfoConfig(ClientSetInfoConfig.DISABLED)
            .socketTimeoutMillis(60_000);
    }

    static RedisClient connect(URI url, DefaultJedisClientConfig.Builder options) {
        return RedisClient.builder()
            .hostAndPort(url.getHost(), url.getPort())
            .clientConfig(options.build())
            .build();
    }

    static RedisClient connectTls() throws Exception {
        var options = options().ssl(true).sslSocketFactory(trusting());
        return connect(TLS, options.user("app").password("secret"));
    }

    /** What trusts the authority of the test's certificates. */
    static SSLSocketFactory trusting() throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (var file = new FileInputStream(System.getenv("CLIENTS_CA"))) {
            var authority = CertificateFactory.getInstance("X.509").generateCertificate(file);
            store.setCertificateEntry("authority", authority);
        }
        var managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store);
        var context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context.getSocketFactory();
    }

    /** The first word of the error that the server replies. */
    static String code(Runnable request) {
        try {
            request.run();
        } catch (JedisException error) {
            Throwable cause = error;
            while (!(cause instanceof JedisDataException) && cause.getCause() != null) {
                cause = cause.getCause();
            }
            return cause.getMessage().split(" ")[0];
        }
        return null;
    }

    static void until(BooleanSupplier condition) throws InterruptedException {
        while (!condition.getAsBoolean()) {
            Thread.sleep(10);
        }
    }

    /** A list that may contain null. */
    static List<Object> list(Object... items) {
        return Arrays.asList(items);
    }

    static Object connection(UnifiedJedis unused) {
        try (var client = connect(PLAIN, options().clientName("reader").database(3))) {
            var reply = client.sendCommand(Protocol.Command.CLIENT, "INFO");
            Map<String, String> info = new HashMap<>();
            for (String field : new String((byte[]) reply).trim().split(" ")) {
                String[] parts = field.split("=", 2);
                info.put(parts[0], parts[1]);
            }
            int database = Integer.parseInt(info.get("db"));
            return list(info.get("name"), database, Integer.parseInt(info.get("resp")));
        }
    }

    static Object values(UnifiedJedis client) {
        var first = client.set("value", "one", new SetParams().ex(100).nx());
        var second = client.set("value", "two", new SetParams().nx());
        var some = client.mget("value", "missing");
        long number = client.incr("number");
        long ttl = client.ttl("value");
        long deleted = client.del("value", "number", "missing");
        boolean inTime = 1 <= ttl && ttl <= 100;
        return list("OK".equals(first), "OK".equals(second), some, number, inTime, deleted);
    }

    static Object binary(UnifiedJedis client) {
        byte[] key = new byte[256];
        byte[] value = new byte[1 << 20];
        for (int index = 0; index < value.length; index++) {
            key[index % 256] = value[index] = (byte) index;
        }
        client.set(key, value);
        return list(client.strlen(key), Arrays.equals(client.get(key), value));
    }

    static Object types(UnifiedJedis client) {
        client.hset("hash", Map.of("a", "1", "b", "2"));
        client.rpush("list", "x", "y");
        client.sadd("set", "p", "q");
        client.zadd("sorted", Map.of("low", 1.0, "high", 2.5));
        List<Object> sorted = new ArrayList<>();
        for (Tuple member : client.zrangeWithScores("sorted", 0, -1)) {
            sorted.add(list(member.getElement(), member.getScore()));
        }
        var members = new TreeSet<>(client.smembers("set"));
        return list(client.hgetAll("hash"), client.lrange("list", 0, -1), members, sorted);
    }

    static Object pipeline(UnifiedJedis client) {
        try (var pipe = client.pipelined()) {
            Response<Long> last = null;
            for (int number = 0; number < 1000; number++) {
                last = pipe.incr("count");
            }
            var wrong = pipe.lpush("count", "x");
            var read = pipe.get("count");
            pipe.sync();
            return list(last.get(), code(wrong::get), read.get());
        }
    }

    static Object transaction(UnifiedJedis client) {
        List<Object> done;
        try (var transaction = client.multi()) {
            transaction.set("watched", "1");
            transaction.incr("watched");
            done = transaction.exec();
        }
        try (var transaction = client.transaction(false)) {
            transaction.watch("watched");
            client.set("watched", "other");
            transaction.multi();
            transaction.set("watched", "mine");
            return list(done.get(1), transaction.exec() == null, client.get("watched"));
        }
    }

    static Object pubsub(UnifiedJedis client) throws Exception {
        var messages = new LinkedBlockingQueue<List<Object>>();
        var subscribed = new CountDownLatch(2);
        var subscriber = new JedisPubSub() {
            @Override
            public void onMessage(String channel, String message) {
                messages.add(list(channel, message));
            }

            @Override
            public void onPMessage(String pattern, String channel, String message) {
                messages.add(list(pattern, channel, message));
            }

            @Override
            public void onSubscribe(String channel, int count) {
                subscribed.countDown();
            }

            @Override
            public void onPSubscribe(String pattern, int count) {
                subscribed.countDown();
            }
        };
        THREADS.submit(() -> client.subscribe(subscriber, "news"));
        until(subscriber::isSubscribed);
        subscriber.psubscribe("n?ws");
        subscribed.await();
        long receivers = client.publish("news", "hello");
        var received = list(receivers, messages.take(), messages.take());
        subscriber.unsubscribe();
        subscriber.punsubscribe();
        until(() -> client.publish("news", "nobody") == 0);
        return received;
    }

    static Object blocking(UnifiedJedis client) throws Exception {
        var nothing = client.blpop(0.1, "queue");
        var popped = THREADS.submit(() -> client.blpop(30, "queue"));
        until(() -> client.info("clients").contains("blocked_clients:1"));
        client.rpush("queue", "job");
        client.zadd("urgent", 1, "first");
        var urgent = client.bzpopmin(1, "urgent");
        var first = urgent.getValue();
        return list(
            nothing,
            popped.get(),
            list(urgent.getKey(), first.getElement(), first.getScore()));
    }

    static Object scripts(UnifiedJedis client) {
        // Jedis leaves it to the program to send a script that the server forgot.
        String lua = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
        String sha = client.scriptLoad(lua);
        var first = client.evalsha(sha, 1, "scripted", "40");
        client.scriptFlush();
        Object second;
        try {
            second = client.evalsha(sha, 1, "scripted", "2");
        } catch (JedisNoScriptException error) {
            second = client.eval(lua, 1, "scripted", "2");
        }
        client.functionLoad(
            "#!lua name=greetings\nredis.register_function('greet', function(keys, args)"
                + " return 'hello ' .. args[1] end)");
        String error = code(() -> client.eval("return redis.error_reply('MINE it is')"));
        return list(first, second, error, client.fcall("greet", List.of(), List.of("you")));
    }

    static Object streams(UnifiedJedis client) {
        var unread = Map.of("stream", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY);
        client.xgroupCreate("stream", "group", new StreamEntryID("0-0"), true);
        for (int number = 1; number <= 3; number++) {
            var id = XAddParams.xAddParams().id(number + "-1");
            client.xadd("stream", Map.of("n", Integer.toString(number)), id);
        }
        List<Object> first = new ArrayList<>();
        var two = XReadGroupParams.xReadGroupParams().count(2);
        for (var entry : client.xreadGroup("group", "alice", two, unread).get(0).getValue()) {
            first.add(list(entry.getID().toString(), entry.getFields()));
        }
        long acknowledged = client.xack("stream", "group", new StreamEntryID("1-1"));
        var pending = client.xpending("stream", "group");
        var start = new StreamEntryID("0-0");
        var claimed = client.xautoclaim("stream", "group", "bob", 0, start, new XAutoClaimParams());
        var wait = XReadGroupParams.xReadGroupParams().block(1000);
        var rest = client.xreadGroup("group", "bob", wait, unread).get(0).getValue();
        return list(
            first,
            acknowledged,
            list(pending.getTotal(), pending.getMinId().toString(), pending.getMaxId().toString()),
            ids(claimed.getValue()),
            ids(rest),
            client.xlen("stream"));
    }

    static List<String> ids(List<StreamEntry> entries) {
        return entries.stream().map(entry -> entry.getID().toString()).toList();
    }

    /** How many different items all pages of a scan have. */
    static <T> int count(Function<String, ScanResult<T>> scan, Function<T, String> name) {
        var found = new HashSet<String>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            var page = scan.apply(cursor);
            page.getResult().forEach(item -> found.add(name.apply(item)));
            cursor = page.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        return found.size();
    }

    static Object scans(UnifiedJedis client) {
        for (int number = 0; number < 1000; number++) {
            String name = "scan:" + number;
            client.set(name, "x");
            client.hset("scanned:hash", name, "x");
            client.sadd("scanned:set", name);
            client.zadd("scanned:sorted", 1, name);
        }
        var some = new ScanParams().count(100);
        var strings = new ScanParams().match("scan:*").count(100);
        return list(
            count(cursor -> client.scan(cursor, strings, "string"), name -> name),
            count(cursor -> client.hscan("scanned:hash", cursor, some), Map.Entry::getKey),
            count(cursor -> client.sscan("scanned:set", cursor, some), name -> name),
            count(cursor -> client.zscan("scanned:sorted", cursor, some), Tuple::getElement));
    }

    static Object tls(UnifiedJedis unused) throws Exception {
        try (var client = connectTls()) {
            client.set("app:key", "one");
            return list(
                new String((byte[]) client.sendCommand(Protocol.Command.ACL, "WHOAMI")),
                client.get("app:key"),
                code(() -> client.get("key")),
                code(client::flushAll),
                code(() -> connect(PLAIN, options().user("app").password("wrong")).ping()));
        }
    }

    /** Jedis's cache is for servers that say that they are Redis 7.4 or newer. */
    static Object caching(UnifiedJedis unused) {
        return null;
    }

    static void runScenarios() throws Exception {
        Map<String, Scenario> scenarios = new LinkedHashMap<>();
        scenarios.put("connection", JedisApp::connection);
        scenarios.put("values", JedisApp::values);
        scenarios.put("binary", JedisApp::binary);
        scenarios.put("types", JedisApp::types);
        scenarios.put("pipeline", JedisApp::pipeline);
        scenarios.put("transaction", JedisApp::transaction);
        scenarios.put("pubsub", JedisApp::pubsub);
        scenarios.put("blocking", JedisApp::blocking);
        scenarios.put("scripts", JedisApp::scripts);
        scenarios.put("streams", JedisApp::streams);
        scenarios.put("scans", JedisApp::scans);
        scenarios.put("tls", JedisApp::tls);
        scenarios.put("caching", JedisApp::caching);
        var json = new GsonBuilder().serializeNulls().create();
        try (var client = connect(PLAIN, options())) {
            for (var scenario : scenarios.entrySet()) {
                Object result = scenario.getValue().run(client);
                System.out.println(scenario.getKey() + " " + json.toJson(result));
            }
        }
    }

    static void runWrites() throws Exception {
        var ledger = Path.of(System.getenv("CLIENTS_LEDGER"));
        try (var client = connectTls()) {
            for (int number = 1; !Files.readString(ledger).contains("stop"); number++) {
                String event = "sent";
                try {
                    client.set("app:write:" + number, Integer.toString(number));
                } catch (JedisException error) {
                    event = "unsure";
                    Thread.sleep(10);
                }
                Files.writeString(ledger, event + " " + number + "\n", StandardOpenOption.APPEND);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("scenarios")) {
            runScenarios();
        } else {
            runWrites();
        }
        THREADS.shutdown();
    }
}
