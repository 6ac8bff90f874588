// An application over BullMQ: a worker with the argument `work`, a producer with `produce`.

'use strict';

const fs = require('node:fs');
const { setTimeout: delay } = require('node:timers/promises');
const { FlowProducer, Queue, Worker } = require('bullmq');

const NAME = 'clients';
const WINDOW = Number(process.env.CLIENTS_WINDOW);
const address = new URL(process.env.CLIENTS_URL);
const connection = {
  host: address.hostname, port: Number(address.port), maxRetriesPerRequest: null,
};

// Appends one line with one write, as the ledger of the harness does.
function record(event, job) {
  fs.appendFileSync(process.env.CLIENTS_LEDGER, `${event} ${job}\n`);
}

// The jobs of an event.
function jobs(event) {
  const lines = fs.readFileSync(process.env.CLIENTS_LEDGER, 'utf8').split('\n');
  const pairs = lines.map((line) => line.split(' ')).filter(([name]) => name === event);
  return new Set(pairs.map(([, job]) => job));
}

// How many jobs are queued and were not executed yet.
function waiting() {
  const ran = jobs('ran');
  return [...jobs('sent')].filter((job) => !ran.has(job)).length;
}

async function execute(job) {
  if (job.name === 'part') {
    return job.data.part;
  }
  if (job.name === 'collect') {
    const parts = Object.values(await job.getChildrenValues()).sort();
    if (parts.join() !== '0,1,2') {
      throw new Error(`the parts of ${job.data.job} are ${parts}`);
    }
  }
  // While more will come, some jobs are left in the store.
  for (let waited = 0; waited < 400 && jobs('stop').size === 0; waited += 1) {
    if (waiting() > WINDOW / 2) {
      break;
    }
    await delay(5);
  }
  record('ran', job.data.job);
  return job.data.job;
}

async function work() {
  const options = { concurrency: Number(process.env.CLIENTS_CONCURRENCY) };
  // A job whose worker does not renew its lock is stalled, and executed again.
  const stalled = { lockDuration: 3000, stalledInterval: 1000, maxStalledCount: 100 };
  const worker = new Worker(NAME, execute, { connection, ...options, ...stalled });
  worker.on('error', (error) => console.error(error.message));
  worker.on('failed', (job, error) => console.error(job && job.id, error.message));
  process.on('SIGTERM', async () => {
    await worker.close();
    process.exit(0);
  });
}

// What the worker seems to have lost.
let missing = 0;

// Keeps the producer at most WINDOW jobs ahead of the worker.
async function pace() {
  let before = waiting();
  for (let idle = 0; before - missing > WINDOW; idle += 1) {
    await delay(10);
    const now = waiting();
    if (now !== before) {
      before = now;
      idle = 0;
    } else if (idle > 500) {
      missing = now;
    }
  }
}

async function produce() {
  const queue = new Queue(NAME, { connection });
  const flows = new FlowProducer({ connection });
  queue.on('error', (error) => console.error(error.message));
  flows.on('error', (error) => console.error(error.message));
  for (let job = 0; ; job += 1) {
    await pace();
    if (jobs('stop').size > 0) {
      break;
    }
    // An identifier of its own makes a repeated request harmless.
    const opts = { jobId: `job-${job}` };
    try {
      if (job % 10 === 0) {
        const children = [0, 1, 2].map((part) => ({
          name: 'part', queueName: NAME, data: { part }, opts: { jobId: `job-${job}-${part}` },
        }));
        await flows.add({ name: 'collect', queueName: NAME, data: { job }, opts, children });
      } else if (job % 5 === 0) {
        await queue.add('record', { job }, { ...opts, delay: 100 });
      } else if (job % 3 === 0) {
        await queue.add('record', { job }, { ...opts, priority: 1 + (job % 4) });
      } else {
        await queue.add('record', { job }, opts);
      }
      record('sent', job);
    } catch (error) {
      console.error(job, error.message);
      record('unsure', job);
    }
  }
  await queue.close();
  await flows.close();
}

if (process.argv[2] === 'work') {
  work();
} else {
  produce();
}
