"""Handlers for workers that the fault suite starts as processes. They write into the tables that the tests make."""

from __future__ import annotations

import asyncio
import os
import time

from queuegate_worker import Retry


def count(messages, transaction):
    """One row for each message, in the transaction of its ack. One in fifty fails the first time, after its row."""
    me = os.getpid()
    for message in messages:
        transaction.execute("INSERT INTO ledger (n, pid, attempt) VALUES (%s, %s, %s)", (message.n, me, message.epoch))
    if any(message.n % 50 == 0 and message.epoch == 1 for message in messages):
        raise Retry("the first time", delay=0.1)


def slow(message, transaction):
    """Writes, says that it is there, and takes its time before the ack."""
    transaction.execute(
        "INSERT INTO ledger (n, pid, attempt) VALUES (%s, %s, %s)", (message.n, os.getpid(), message.epoch)
    )
    say("inside", message.n)
    time.sleep(message.seconds)


def plain(message):
    """The same without a transaction: only its output tells that it ran."""
    say("inside", message.n)
    time.sleep(message.seconds)
    say("done", message.n)


def timed(message):
    """Says when it begins and ends, by the clock that all processes of the machine share."""
    say("begin", message.n, time.monotonic())
    time.sleep(message.seconds)
    say("end", message.n, time.monotonic())


def say(*words):
    """A line in one write: two threads' parts of lines mix otherwise."""
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def poisoned(message):
    """A message that is deadly ends the process, while others are handled beside it."""
    time.sleep(0.05)
    if message.deadly:
        os._exit(3)
    say("handled", message.n)


def poisoned_batch(messages):
    for message in messages:
        poisoned(message)


async def poisoned_coroutine(message):
    await asyncio.sleep(0.05)
    if message.deadly:
        os._exit(3)
    say("handled", message.n)
