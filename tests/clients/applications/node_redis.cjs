// The scenarios of scenarios.py by node-redis: `node node_redis.cjs scenarios` or `... writes`.
'use strict';

const fs = require('node:fs');
const { createClient, RESP_TYPES, WatchError } = require('redis');

const { CLIENTS_URL, CLIENTS_TLS_URL, CLIENTS_CA, CLIENTS_LEDGER } = process.env;
const RESP = Number(process.env.CLIENTS_PROTOCOL);
const connect = (options) => createClient({ url: CLIENTS_URL, RESP, ...options }).connect();
const tlsClient = (socket) =>
    createClient({
        url: CLIENTS_TLS_URL,
        RESP,
        disableOfflineQueue: true,
        socket: { tls: true, ca: fs.readFileSync(CLIENTS_CA), ...socket },
    }).on('error', () => {});
const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// The first word of the error that the server replies.
const word = (error) => error.message.split(' ')[0];
const code = (request) => request.then(() => null, word);

async function until(condition) {
    while (!(await condition())) await sleep(10);
}

async function count(pages, key) {
    const found = new Set();
    for await (const page of pages) page.forEach((item) => found.add(key ? item[key] : item));
    return found.size;
}

const scenarios = {
    async connection() {
        const client = await connect({ name: 'reader', database: 3 });
        const { name, db, resp } = await client.clientInfo();
        client.destroy();
        return [name, db, Number(resp)];
    },

    async values(client) {
        const ex = { expiration: { type: 'EX', value: 100 } };
        return [
            (await client.set('value', 'one', { ...ex, condition: 'NX' })) === 'OK',
            (await client.set('value', 'two', { condition: 'NX' })) === 'OK',
            await client.mGet(['value', 'missing']),
            await client.incr('number'),
            [await client.ttl('value')].every((ttl) => 1 <= ttl && ttl <= 100),
            await client.del(['value', 'number', 'missing']),
        ];
    },

    async binary(client) {
        const key = Buffer.from([...Array(256).keys()]);
        const value = Buffer.alloc(1 << 20, key);
        await client.set(key, value);
        const buffers = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
        return [await client.strLen(key), value.equals(await buffers.get(key))];
    },

    async types(client) {
        await client.hSet('hash', { a: '1', b: '2' });
        await client.rPush('list', ['x', 'y']);
        await client.sAdd('set', ['p', 'q']);
        await client.zAdd('sorted', [{ score: 1, value: 'low' }, { score: 2.5, value: 'high' }]);
        const sorted = await client.zRangeWithScores('sorted', 0, -1);
        return [
            await client.hGetAll('hash'),
            await client.lRange('list', 0, -1),
            (await client.sMembers('set')).sort(),
            sorted.map(({ value, score }) => [value, score]),
        ];
    },

    async pipeline(client) {
        // Requests of one turn of the event loop are sent together.
        const requests = [...Array(1000)].map(() => client.incr('count'));
        requests.push(code(client.lPush('count', 'x')), client.get('count'));
        return (await Promise.all(requests)).slice(999);
    },

    async transaction(client) {
        const done = await client.multi().set('watched', '1').incr('watched').exec();
        const watcher = await connect();
        await watcher.watch('watched');
        await client.set('watched', 'other');
        const aborted = await watcher.multi().set('watched', 'mine').exec().then(
            () => false,
            (error) => error instanceof WatchError,
        );
        watcher.destroy();
        return [done[1], aborted, await client.get('watched')];
    },

    async pubsub(client) {
        const subscriber = await connect();
        const received = [];
        await subscriber.subscribe('news', (message, channel) => {
            received[0] = [channel, message];
        });
        await subscriber.pSubscribe('n?ws', (message, channel) => {
            received[1] = ['n?ws', channel, message];
        });
        const receivers = await client.publish('news', 'hello');
        await until(() => received[0] && received[1]);
        subscriber.destroy();
        await until(async () => (await client.publish('news', 'nobody')) === 0);
        return [receivers, ...received];
    },

    async blocking(client) {
        const blocked = await connect();
        const nothing = await blocked.blPop('queue', 0.1);
        const waiting = blocked.blPop('queue', 60);
        await until(async () => /blocked_clients:1/.test(await client.info('clients')));
        await client.rPush('queue', 'job');
        await client.zAdd('urgent', { score: 1, value: 'first' });
        const popped = await waiting;
        const urgent = await client.bzPopMin('urgent', 1);
        blocked.destroy();
        return [
            nothing,
            [popped.key, popped.element],
            [urgent.key, urgent.value, urgent.score],
        ];
    },

    async scripts(client) {
        // node-redis has no helper that loads a script that the server forgot.
        const lua = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
        const sha = await client.scriptLoad(lua);
        const request = (number) => ({ keys: ['scripted'], arguments: [String(number)] });
        const first = await client.evalSha(sha, request(40));
        await client.scriptFlush();
        const forgotten = await code(client.evalSha(sha, request(2)));
        const second = forgotten === 'NOSCRIPT' && (await client.eval(lua, request(2)));
        await client.functionLoad(
            "#!lua name=greetings\nredis.register_function('greet', function(keys, args)" +
                " return 'hello ' .. args[1] end)",
        );
        const error = await code(client.eval("return redis.error_reply('MINE it is')"));
        return [first, second, error, await client.fCall('greet', { arguments: ['you'] })];
    },

    async streams(client) {
        const read = async (consumer, options) => {
            const stream = { key: 'stream', id: '>' };
            const reply = await client.xReadGroup('group', consumer, stream, options);
            // In RESP3 the reply is as the server sends it.
            return Array.isArray(reply)
                ? reply[0].messages
                : reply.stream.map(([id, [name, value]]) => ({ id, message: { [name]: value } }));
        };
        await client.xGroupCreate('stream', 'group', '0', { MKSTREAM: true });
        for (const number of [1, 2, 3]) {
            await client.xAdd('stream', `${number}-1`, { n: String(number) });
        }
        const first = await read('alice', { COUNT: 2 });
        const acknowledged = await client.xAck('stream', 'group', '1-1');
        const pending = await client.xPending('stream', 'group');
        const claimed = await client.xAutoClaim('stream', 'group', 'bob', 0, '0');
        const rest = await read('bob', { BLOCK: 1000 });
        return [
            first.map(({ id, message }) => [id, message]),
            acknowledged,
            [pending.pending, pending.firstId, pending.lastId],
            claimed.messages.map(({ id }) => id),
            rest.map(({ id }) => id),
            await client.xLen('stream'),
        ];
    },

    async scans(client) {
        const names = [...Array(1000).keys()].map((number) => `scan:${number}`);
        await client.mSet(Object.fromEntries(names.map((name) => [name, 'x'])));
        await client.hSet('scanned:hash', Object.fromEntries(names.map((name) => [name, 'x'])));
        await client.sAdd('scanned:set', names);
        await client.zAdd('scanned:sorted', names.map((value) => ({ score: 1, value })));
        const some = { COUNT: 100 };
        return [
            await count(client.scanIterator({ MATCH: 'scan:*', TYPE: 'string', ...some })),
            await count(client.hScanIterator('scanned:hash', some), 'field'),
            await count(client.sScanIterator('scanned:set', some)),
            await count(client.zScanIterator('scanned:sorted', some), 'value'),
        ];
    },

    async tls() {
        const client = await tlsClient().connect();
        await client.set('app:key', 'one');
        const wrong = createClient({
            url: CLIENTS_URL,
            RESP,
            username: 'app',
            password: 'wrong',
            socket: { reconnectStrategy: false },
        });
        wrong.on('error', () => {});
        const replies = [
            await client.aclWhoAmI(),
            await client.get('app:key'),
            await code(client.get('key')),
            await code(client.flushAll()),
            await code(wrong.connect()),
        ];
        client.destroy();
        return replies;
    },

    async caching(client) {
        if (RESP !== 3) return null;
        const cached = await connect({ clientSideCache: { ttl: 0, maxEntries: 0 } });
        await client.set('cached', 'old');
        const replies = [await cached.get('cached'), await cached.get('cached')];
        const hits = /cmdstat_get:calls=(\d+)/;
        await client.configResetStat();
        await cached.get('cached');
        const isStored = !hits.test(await client.info('commandstats'));
        await client.set('cached', 'new');
        await until(async () => (await cached.get('cached')) === 'new');
        cached.destroy();
        return [...replies, isStored];
    },
};

async function runScenarios() {
    const client = await connect();
    for (const [name, scenario] of Object.entries(scenarios)) {
        console.log(name, JSON.stringify(await scenario(client)));
    }
    client.destroy();
}

const silent = new Error('no reply');

// A socket that ends while node-redis 5 sets up its connection may leave a client that counts as ready, and whose requests are
// never answered (node-redis#3104).
function answered(request) {
    let timer;
    const late = new Promise((_, fail) => {
        timer = setTimeout(() => fail(silent), 20000);
    });
    return Promise.race([request, late]).finally(() => clearTimeout(timer));
}

async function runWrites() {
    const connected = () => tlsClient({ reconnectStrategy: 10 }).connect();
    let client = await connected();
    const record = (event, number) => fs.appendFileSync(CLIENTS_LEDGER, `${event} ${number}\n`);
    for (let number = 1; !/^stop/m.test(fs.readFileSync(CLIENTS_LEDGER)); number += 1) {
        try {
            await answered(client.set(`app:write:${number}`, String(number)));
            record('sent', number);
        } catch (error) {
            record('unsure', number);
            if (error === silent) {
                client.destroy();
                client = await connected();
            }
            await sleep(10);
        }
    }
    client.destroy();
}

({ scenarios: runScenarios, writes: runWrites })[process.argv[2]]();
