// A site of Express with the sessions of express-session, which connect-redis stores by node-redis,
// and a page that is cached by ioredis: `node express_app.cjs PORT`.
'use strict';

const { RedisStore } = require('connect-redis');
const express = require('express');
const session = require('express-session');
const Redis = require('ioredis');
const { createClient } = require('redis');

const url = process.env.CLIENTS_URL;
const sessions = createClient({ url, socket: { reconnectStrategy: 10 } });
sessions.on('error', () => {});
const pages = new Redis(url, { retryStrategy: () => 10 });
pages.on('error', () => {});

const app = express();
app.use(session({
    store: new RedisStore({ client: sessions }),
    secret: 'of a test',
    resave: false,
    saveUninitialized: false,
}));
let rendered = 0;

app.get('/visit', (request, response) => {
    request.session.visits = (request.session.visits ?? 0) + 1;
    response.send(String(request.session.visits));
});

app.get('/leave', (request, response, next) => {
    request.session.destroy((error) => (error ? next(error) : response.send('left')));
});

app.get('/page', async (_, response) => {
    let page = await pages.get('page');
    if (page === null) {
        rendered += 1;
        page = String(rendered);
        await pages.set('page', page, 'EX', 3600);
    }
    response.send(page);
});

sessions.connect().then(() => app.listen(Number(process.argv[2]), '127.0.0.1'));
