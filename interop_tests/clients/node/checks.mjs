// amqplib at work. `node checks.mjs URL CHECK` runs one check and ends with status 0 when it holds.
//
// Each check makes names of its own; nothing is left behind but what the broker deletes by itself.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import amqp from 'amqplib';

const [url, name] = process.argv.slice(2);
const PATIENCE_MS = 30_000;

const unique = (stem) => `${stem}-${randomUUID()}`;
const text = (message) => message.content.toString();
const numbers = (count) => Array.from({ length: count }, (_, index) => String(index));

/** Collects messages; `first(count)` waits until there are so many. */
class Inbox {
  constructor() {
    this.messages = [];
    this.waiting = null;
    this.take = (message) => {
      this.messages.push(message);
      this.waiting?.();
    };
  }

  async first(count) {
    while (this.messages.length < count) {
      await new Promise((resolve) => {
        this.waiting = resolve;
      });
    }
    return this.messages.slice(0, count);
  }
}

const checks = {
  async confirms(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue(unique('queue'), { durable: true });
    for (const body of numbers(500)) {
      channel.sendToQueue(queue, Buffer.from(body), { persistent: true });
    }
    await channel.waitForConfirms();
    assert.equal((await channel.checkQueue(queue)).messageCount, 500);
    const inbox = new Inbox();
    await channel.prefetch(50);
    const { consumerTag } = await channel.consume(queue, (message) => {
      inbox.take(message);
      channel.ack(message);
    });
    assert.deepEqual((await inbox.first(500)).map(text), numbers(500));
    await channel.cancel(consumerTag);
    assert.equal((await channel.deleteQueue(queue)).messageCount, 0);
  },

  async returns(connection) {
    const channel = await connection.createConfirmChannel();
    const returned = once(channel, 'return');
    channel.publish('', 'no-such-queue', Buffer.from('lost'), { mandatory: true, messageId: 'm' });
    const [message] = await returned;
    assert.equal(message.fields.replyCode, 312);
    assert.equal(message.fields.replyText, 'NO_ROUTE');
    assert.equal(message.properties.messageId, 'm');
    assert.equal(text(message), 'lost');
    await channel.waitForConfirms();
  },

  async nacks(connection) {
    const channel = await connection.createConfirmChannel();
    const queueArguments = { 'x-max-length': 1, 'x-overflow': 'reject-publish' };
    const { queue } = await channel.assertQueue('', { exclusive: true, arguments: queueArguments });
    channel.sendToQueue(queue, Buffer.from('1'));
    await channel.waitForConfirms();
    channel.sendToQueue(queue, Buffer.from('2'));
    await assert.rejects(channel.waitForConfirms());
  },

  async workers(connection) {
    const publisher = await connection.createConfirmChannel();
    const { queue } = await publisher.assertQueue(unique('tasks'), { autoDelete: true });
    const inbox = new Inbox();
    const shares = [0, 0, 0];
    for (const index of shares.keys()) {
      const channel = await connection.createChannel();
      await channel.prefetch(5);
      await channel.consume(queue, (message) => {
        shares[index] += 1;
        setImmediate(() => {
          channel.ack(message);
          inbox.take(message);
        });
      });
    }
    for (const body of numbers(300)) {
      publisher.sendToQueue(queue, Buffer.from(body));
    }
    const bodies = (await inbox.first(300)).map(text);
    assert.equal(new Set(bodies).size, 300);
    assert.ok(shares.every((share) => share > 0), `shares ${shares}`);
  },

  async prefetch(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue('', { exclusive: true });
    await channel.prefetch(3, true);
    const inbox = new Inbox();
    for (let consumer = 0; consumer < 2; consumer += 1) {
      await channel.consume(queue, inbox.take);
    }
    for (const body of numbers(6)) {
      channel.sendToQueue(queue, Buffer.from(body));
    }
    const held = await inbox.first(3);
    await channel.checkQueue(queue);
    await channel.checkQueue(queue);
    assert.equal(inbox.messages.length, 3);
    held.forEach((message) => channel.ack(message));
    await inbox.first(6);
  },

  async rpc(connection) {
    const server = await connection.createChannel();
    const { queue } = await server.assertQueue('', { exclusive: true });
    await server.consume(queue, (message) => {
      const { replyTo, correlationId } = message.properties;
      server.sendToQueue(replyTo, Buffer.from(text(message).toUpperCase()), { correlationId });
      server.ack(message);
    });
    const client = await connection.createChannel();
    const inbox = new Inbox();
    await client.consume('amq.rabbitmq.reply-to', inbox.take, { noAck: true });
    for (const id of numbers(50)) {
      const options = { replyTo: 'amq.rabbitmq.reply-to', correlationId: id };
      client.sendToQueue(queue, Buffer.from(`question ${id}`), options);
    }
    const replies = await inbox.first(50);
    replies.forEach((reply) => assert.equal(text(reply), `QUESTION ${reply.properties.correlationId}`));
  },

  async exchanges(connection) {
    const channel = await connection.createConfirmChannel();
    const entrance = unique('entrance');
    await channel.assertExchange(entrance, 'fanout');
    const cases = [
      ['direct', 'a', {}, 'a', {}, 'b', {}],
      ['topic', 'a.*.#', {}, 'a.b.c', {}, 'b', {}],
      ['headers', '', { 'x-match': 'any', k: 1, l: 2 }, '', { l: 2 }, '', { l: 3 }],
    ];
    for (const [type, binding, table, key, headers, otherKey, otherHeaders] of cases) {
      const exchange = unique(type);
      await channel.assertExchange(exchange, type, { autoDelete: true });
      await channel.bindExchange(exchange, entrance, '');
      const { queue } = await channel.assertQueue('', { exclusive: true });
      await channel.bindQueue(queue, exchange, binding, table);
      channel.publish(entrance, key, Buffer.from('yes'), { headers });
      channel.publish(entrance, otherKey, Buffer.from('no'), { headers: otherHeaders });
      await channel.waitForConfirms();
      assert.equal(text(await channel.get(queue, { noAck: true })), 'yes', type);
      assert.equal(await channel.get(queue), false, type);
      await channel.unbindExchange(exchange, entrance, '');
    }
    await channel.deleteExchange(entrance);
  },

  async deadLetters(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue: dead } = await channel.assertQueue('', { exclusive: true });
    const options = { exclusive: true, deadLetterExchange: '', deadLetterRoutingKey: dead, messageTtl: 60_000 };
    const { queue } = await channel.assertQueue('', options);
    const inbox = new Inbox();
    await channel.consume(dead, inbox.take, { noAck: true });
    channel.sendToQueue(queue, Buffer.from('expired'), { expiration: 1 });
    const [expired] = await inbox.first(1);
    channel.sendToQueue(queue, Buffer.from('rejected'), {});
    await channel.waitForConfirms();
    channel.nack(await channel.get(queue), false, false);
    const [, rejected] = await inbox.first(2);
    for (const [message, reason] of [[expired, 'expired'], [rejected, 'rejected']]) {
      assert.equal(text(message), reason);
      const [death] = message.properties.headers['x-death'];
      assert.equal(death.reason, reason);
      assert.equal(death.queue, queue);
      assert.equal(death.count, 1);
    }
  },

  async errors(connection) {
    const channel = await connection.createChannel();
    const failed = once(channel, 'error');
    await assert.rejects(channel.checkQueue('missing-queue'), (error) => error.code === 404);
    assert.equal((await failed)[0].code, 404);
    const second = await connection.createChannel();
    second.on('error', () => {});
    const { queue } = await second.assertQueue('', { exclusive: true });
    const redeclared = { exclusive: true, messageTtl: 5 };
    await assert.rejects(second.assertQueue(queue, redeclared), (error) => [403, 406].includes(error.code));
    const third = await connection.createChannel();
    await third.assertQueue('', { exclusive: true });
  },

  async connectionErrors(connection) {
    const channel = await connection.createChannel();
    channel.on('error', () => {});
    const { queue } = await channel.assertQueue('', { exclusive: true });
    const failed = once(connection, 'error');
    await channel.consume(queue, () => {}, { consumerTag: 'mine' });
    channel.consume(queue, () => {}, { consumerTag: 'mine' }).catch(() => {});
    assert.equal((await failed)[0].code, 530);
  },

  async cancelNotification(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue(unique('queue'));
    const inbox = new Inbox();
    await channel.consume(queue, inbox.take);
    await (await connection.createChannel()).deleteQueue(queue);
    assert.deepEqual(await inbox.first(1), [null]);
  },

  async headers(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue('', { exclusive: true });
    const headers = {
      boolean: true, small: 7, negative: -7, big: 2 ** 40, float: 0.5, text: 'Grüße', none: null,
      octets: Buffer.from([0, 255]), list: [1, 'two', [3]], table: { deep: { deeper: true } },
      time: { '!': 'timestamp', value: 1_700_000_000 },
    };
    const options = {
      headers, contentType: 'text/plain', contentEncoding: 'utf-8', persistent: true, priority: 3, type: 't',
      correlationId: 'c', replyTo: 'r', expiration: '60000', messageId: 'i', timestamp: 1_700_000_000, appId: 'a',
    };
    channel.sendToQueue(queue, Buffer.from('m'), options);
    await channel.waitForConfirms();
    const { properties } = await channel.get(queue, { noAck: true });
    assert.deepEqual(properties.headers, headers);
    const { headers: _, persistent, ...plain } = options;
    for (const [key, value] of Object.entries(plain)) {
      assert.equal(properties[key], value, key);
    }
    assert.equal(properties.deliveryMode, 2);
  },

  async largeBody(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue('', { exclusive: true });
    const body = Buffer.alloc(5_000_000, Buffer.from(numbers(1000).join(',')));
    channel.sendToQueue(queue, body);
    await channel.waitForConfirms();
    assert.ok(body.equals((await channel.get(queue, { noAck: true })).content));
  },

  async heartbeats(connection) {
    // idle for longer than the broker's patience with a heartbeat of one second (see `connect` below)
    await pause(4000);
    const channel = await connection.createChannel();
    await channel.assertQueue('', { exclusive: true });
  },

  async secret(connection) {
    await connection.updateSecret(Buffer.from('fresh'), 'rotation');
    await connection.createChannel();
  },
};

const check = checks[name];
assert.ok(check, `no check ${name}; there are ${Object.keys(checks).join(' ')}`);
const separator = url.includes('?') ? '&' : '?';
const connection = await amqp.connect(name === 'heartbeats' ? `${url}${separator}heartbeat=1` : url);
if (name !== 'connectionErrors') {
  connection.on('error', (error) => assert.fail(error));
}
const timer = setTimeout(() => assert.fail(`${name} took longer than ${PATIENCE_MS} ms`), PATIENCE_MS);
await check(connection);
clearTimeout(timer);
if (name !== 'connectionErrors') {
  await connection.close();
}
