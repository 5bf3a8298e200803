"""A pool of workers with retries and dead letters, with aio-pika.

    jobs --(taken, failed)--> jobs.retry --(after a pause)--> jobs --(failed three times)--> jobs.dead

The broker does the waiting: a job that fails is rejected, which sends it (as a "dead letter") to `jobs.retry`; nobody
consumes there, so it expires after the queue's time to live, and as a dead letter of that queue comes back to `jobs`.
The header `x-death` counts how often that has happened.

    python examples/worker_pool.py [URL]     # a broker has to run: make run
"""

import asyncio
import sys

import aio_pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1/"
WORKERS, TRIES, PAUSE_MS = 3, 3, 200
JOBS = ["resize cat.jpg", "resize dog.jpg", "resize broken.jpg", "resize bird.jpg"]


async def declare(channel):
    """Declaring is harmless when it is all there already, so every program that needs the queues does it."""
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "jobs", "x-message-ttl": PAUSE_MS}
    await channel.declare_queue("jobs.retry", durable=True, arguments=back)
    dead = await channel.declare_queue("jobs.dead", durable=True)
    away = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "jobs.retry"}
    return await channel.declare_queue("jobs", durable=True, arguments=away), dead


def failures(message):
    """How often the job was rejected before."""
    deaths = message.headers.get("x-death", [])
    return sum(each["count"] for each in deaths if each["queue"] == "jobs")


async def worker(name, over):
    connection = await aio_pika.connect_robust(URL)  # reconnects, and declares and consumes again, by itself
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=1)  # one job at a time: who is free takes the next
        jobs, _ = await declare(channel)

        async def work(message):
            job = message.body.decode()
            if "broken" not in job:
                print(f"{name}: {job}: done", flush=True)
                await message.ack()  # only now does the broker forget it: a worker that dies loses nothing
                over.release()
            elif failures(message) + 1 < TRIES:
                print(f"{name}: {job}: failed, once more in {PAUSE_MS} ms", flush=True)
                await message.reject(requeue=False)
            else:
                print(f"{name}: {job}: failed {TRIES} times, put aside", flush=True)
                await channel.default_exchange.publish(aio_pika.Message(message.body), "jobs.dead")
                await message.ack()
                over.release()

        await jobs.consume(work)
        await asyncio.Event().wait()  # until it is cancelled


async def main():
    over = asyncio.Semaphore(0)  # released once for each job that is done or put aside
    pool = [asyncio.create_task(worker(f"worker {number}", over)) for number in range(WORKERS)]
    connection = await aio_pika.connect_robust(URL)
    async with connection:
        channel = await connection.channel()  # publisher confirms are on: `publish` returns when it is on the disk
        _, dead = await declare(channel)
        for job in JOBS:
            message = aio_pika.Message(job.encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, "jobs")
        for _ in JOBS:
            await over.acquire()
        aside = (await dead.declare()).message_count  # declared again, it says how many messages it has
        print(f"{len(JOBS)} jobs are over, {aside} of them in jobs.dead")
    for each in pool:
        each.cancel()
    await asyncio.gather(*pool, return_exceptions=True)


asyncio.run(main())
