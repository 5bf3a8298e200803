"""A Celery application: tasks that a worker does elsewhere, with results and retries.

    make run                                                                  # a broker
    cd examples && ../.venv/bin/celery -A celery_app worker --loglevel INFO   # a worker, in another terminal
    .venv/bin/python examples/celery_app.py                                   # asks for some work, in a third

`pip install celery` is all that it takes; the broker may be another one with BROKER_URL=amqp://...
"""

import os
import random

from celery import Celery, chain, group

app = Celery("shop", broker=os.environ.get("BROKER_URL", "amqp://guest:guest@127.0.0.1//"), backend="rpc://")
app.conf.update(
    task_default_queue="shop",
    task_acks_late=True,  # a task is acknowledged when it is done: a worker that dies loses none
    worker_prefetch_multiplier=1,  # and holds no more than it is working on
    broker_connection_retry_on_startup=True,
)


class Jammed(Exception):
    """The coffee machine is jammed, which passes."""


@app.task(autoretry_for=(Jammed,), max_retries=20, default_retry_delay=0.1, name="shop.brew")
def brew(drink):
    if random.random() < 0.3:
        raise Jammed(drink)
    return f"a cup of {drink}"


@app.task(name="shop.add_milk")
def add_milk(cup):
    return f"{cup} with milk"


if __name__ == "__main__":
    drinks = ["coffee", "tea", "cocoa"]
    # All at once on as many workers as there are; each cup gets its milk when it is brewed.
    cups = group(chain(brew.s(drink), add_milk.s()) for drink in drinks)()
    for cup in cups.get(timeout=float(os.environ.get("PATIENCE_S", "60"))):
        print(cup)
