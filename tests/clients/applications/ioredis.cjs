// The scenarios of scenarios.py by ioredis: `node ioredis.cjs scenarios` or `... writes`.
'use strict';

const fs = require('node:fs');
const Redis = require('ioredis');

const { CLIENTS_URL, CLIENTS_TLS_URL, CLIENTS_CA, CLIENTS_LEDGER } = process.env;
const connect = (options) => new Redis(CLIENTS_URL, options);
const connectTls = (options) =>
    new Redis(CLIENTS_TLS_URL, { tls: { ca: fs.readFileSync(CLIENTS_CA) }, ...options });
const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// The first word of the error that the server replies.
const code = (request) => request.then(() => null, (error) => error.message.split(' ')[0]);

async function until(condition) {
    while (!(await condition())) await sleep(10);
}

// The next messages of a subscriber, of this event.
const next = (subscriber, event) =>
    new Promise((done) => subscriber.once(event, (...message) => done(message)));

async function count(stream, isPair) {
    const found = new Set();
    for await (const page of stream) {
        page.forEach((item, index) => isPair && index % 2 ? null : found.add(item));
    }
    return found.size;
}

const pairs = (flat) =>
    flat.flatMap((item, index) => (index % 2 ? [] : [[item, Number(flat[index + 1])]]));

const fields = (flat) =>
    Object.fromEntries(flat.flatMap((item, index) => (index % 2 ? [] : [[item, flat[index + 1]]])));

const scenarios = {
    async connection() {
        const client = connect({ connectionName: 'reader', db: 3 });
        const info = await client.client('INFO');
        client.disconnect();
        const field = (name) => info.match(new RegExp(` ${name}=(\\S*)`))[1];
        return [field('name'), Number(field('db')), Number(field('resp'))];
    },

    async values(client) {
        return [
            (await client.set('value', 'one', 'EX', 100, 'NX')) === 'OK',
            (await client.set('value', 'two', 'NX')) === 'OK',
            await client.mget('value', 'missing'),
            await client.incr('number'),
            [await client.ttl('value')].every((ttl) => 1 <= ttl && ttl <= 100),
            await client.del('value', 'number', 'missing'),
        ];
    },

    async binary(client) {
        const key = Buffer.from([...Array(256).keys()]);
        const value = Buffer.alloc(1 << 20, key);
        await client.set(key, value);
        return [await client.strlen(key), value.equals(await client.getBuffer(key))];
    },

    async types(client) {
        await client.hset('hash', { a: '1', b: '2' });
        await client.rpush('list', 'x', 'y');
        await client.sadd('set', 'p', 'q');
        await client.zadd('sorted', 1, 'low', 2.5, 'high');
        return [
            await client.hgetall('hash'),
            await client.lrange('list', 0, -1),
            (await client.smembers('set')).sort(),
            pairs(await client.zrange('sorted', 0, -1, 'WITHSCORES')),
        ];
    },

    async pipeline(client) {
        const pipeline = client.pipeline();
        for (let number = 0; number < 1000; number += 1) pipeline.incr('count');
        const replies = await pipeline.lpush('count', 'x').get('count').exec();
        return [replies[999][1], replies[1000][0].message.split(' ')[0], replies[1001][1]];
    },

    async transaction(client) {
        const done = await client.multi().set('watched', '1').incr('watched').exec();
        const watcher = connect();
        await watcher.watch('watched');
        await client.set('watched', 'other');
        const replies = await watcher.multi().set('watched', 'mine').exec();
        watcher.disconnect();
        return [done[1][1], replies === null, await client.get('watched')];
    },

    async pubsub(client) {
        const subscriber = connect();
        await subscriber.subscribe('news');
        await subscriber.psubscribe('n?ws');
        const messages = Promise.all([next(subscriber, 'message'), next(subscriber, 'pmessage')]);
        const receivers = await client.publish('news', 'hello');
        const received = await messages;
        subscriber.disconnect();
        await until(async () => (await client.publish('news', 'nobody')) === 0);
        return [receivers, ...received];
    },

    async blocking(client) {
        const blocked = connect();
        const nothing = await blocked.blpop('queue', 0.1);
        const popped = blocked.blpop('queue', 60);
        await until(async () => /blocked_clients:1/.test(await client.info('clients')));
        await client.rpush('queue', 'job');
        await client.zadd('urgent', 1, 'first');
        const [key, member, score] = await client.bzpopmin('urgent', 1);
        const reply = [nothing, await popped, [key, member, Number(score)]];
        blocked.disconnect();
        return reply;
    },

    async scripts(client) {
        const lua = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
        client.defineCommand('add', { numberOfKeys: 1, lua });
        const first = await client.add('scripted', 40);
        await client.script('FLUSH');
        const second = await client.add('scripted', 2);
        await client.function(
            'LOAD',
            "#!lua name=greetings\nredis.register_function('greet', function(keys, args)" +
                " return 'hello ' .. args[1] end)",
        );
        const error = await code(client.eval("return redis.error_reply('MINE it is')", 0));
        return [first, second, error, await client.fcall('greet', 0, 'you')];
    },

    async streams(client) {
        const read = async (...request) => (await client.xreadgroup(...request))[0][1];
        await client.xgroup('CREATE', 'stream', 'group', '0', 'MKSTREAM');
        for (const number of [1, 2, 3]) await client.xadd('stream', `${number}-1`, 'n', number);
        const first = await read('GROUP', 'group', 'alice', 'COUNT', 2, 'STREAMS', 'stream', '>');
        const acknowledged = await client.xack('stream', 'group', '1-1');
        const pending = await client.xpending('stream', 'group');
        const [, claimed] = await client.xautoclaim('stream', 'group', 'bob', 0, '0');
        const rest = await read('GROUP', 'group', 'bob', 'BLOCK', 1000, 'STREAMS', 'stream', '>');
        return [
            first.map(([entry, flat]) => [entry, fields(flat)]),
            acknowledged,
            pending.slice(0, 3),
            claimed.map(([entry]) => entry),
            rest.map(([entry]) => entry),
            await client.xlen('stream'),
        ];
    },

    async scans(client) {
        const names = [...Array(1000).keys()].map((number) => `scan:${number}`);
        await client.mset(names.flatMap((name) => [name, 'x']));
        await client.hset('scanned:hash', ...names.flatMap((name) => [name, 'x']));
        await client.sadd('scanned:set', ...names);
        await client.zadd('scanned:sorted', ...names.flatMap((name) => [1, name]));
        const match = { match: 'scan:*', count: 100, type: 'string' };
        return [
            await count(client.scanStream(match)),
            await count(client.hscanStream('scanned:hash', { count: 100 }), true),
            await count(client.sscanStream('scanned:set', { count: 100 })),
            await count(client.zscanStream('scanned:sorted', { count: 100 }), true),
        ];
    },

    async tls() {
        const client = connectTls({ enableReadyCheck: false });
        await client.set('app:key', 'one');
        const wrong = connect({ lazyConnect: true, enableReadyCheck: false });
        const refused = await code(wrong.call('AUTH', 'app', 'wrong'));
        const replies = [
            await client.acl('WHOAMI'),
            await client.get('app:key'),
            await code(client.get('key')),
            await code(client.flushall()),
            refused,
        ];
        client.disconnect();
        wrong.disconnect();
        return replies;
    },

    // ioredis speaks RESP2 only, and has no cache.
    async caching() {
        return null;
    },
};

async function runScenarios() {
    const client = connect();
    for (const [name, scenario] of Object.entries(scenarios)) {
        console.log(name, JSON.stringify(await scenario(client)));
    }
    client.disconnect();
}

async function runWrites() {
    const client = connectTls({ maxRetriesPerRequest: 0, retryStrategy: () => 10 });
    client.on('error', () => {});
    const record = (event, number) => fs.appendFileSync(CLIENTS_LEDGER, `${event} ${number}\n`);
    for (let number = 1; !/^stop/m.test(fs.readFileSync(CLIENTS_LEDGER)); number += 1) {
        try {
            await client.set(`app:write:${number}`, number);
            record('sent', number);
        } catch {
            record('unsure', number);
            await sleep(10);
        }
    }
    client.disconnect();
}

({ scenarios: runScenarios, writes: runWrites })[process.argv[2]]();
