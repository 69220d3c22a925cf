"""The tasks of the tests' workers. What they do is seen in the table `ran`."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from queuegate_worker import Message, Retry, TaskContext, task

if (pipe := Path("imports")).is_fifo():  # a test has this module take its time, until it closes its end
    pipe.read_bytes()


def _ran(context: TaskContext, word: str) -> None:
    values = (word, context.attempt, os.getpid())
    context.transaction.execute("INSERT INTO ran (word, attempt, pid) VALUES (%s, %s, %s)", values)


@task(takes_context=True)
def plain(context: TaskContext, word: str) -> None:
    _ran(context, word)


@task(takes_context=True, queue="mails", max_attempts=2)
def fails(context: TaskContext, word: str) -> None:
    _ran(context, word)
    raise ValueError(f"no {word}")


@task(takes_context=True, timeout=1)
def hangs(context: TaskContext, word: str) -> None:
    _ran(context, word)
    if context.attempt == 1:
        threading.Event().wait(600)


@task(takes_context=True)
def waits_in_a_pool(context: TaskContext, word: str) -> None:
    """The first time it does not end, nor do the interpreter's exit and the program that it has started."""
    started = Path("started")
    if not started.exists():
        started.write_text(str(subprocess.Popen(["sleep", "600"]).pid))
        with ThreadPoolExecutor() as pool:
            pool.submit(threading.Event().wait, 600).result()
    _ran(context, word)


def handles_in_a_pool(message: Message) -> None:
    """Its thread does not end, and the interpreter would wait for it."""
    Path("started").write_text("")
    with ThreadPoolExecutor() as pool:
        pool.submit(threading.Event().wait, 600).result()


@task(timeout=1, takes_context=True)
def holds_the_lock(context: TaskContext, word: str) -> None:
    if context.attempt == 1:
        re.match(r"(a+)+$", "a" * 40 + "b")
    _ran(context, word)


@task(takes_context=True, unique=True, keep_result=600)
async def answers(context: TaskContext, word: str) -> dict[str, str]:
    values = (word, context.attempt, os.getpid())
    await context.transaction.execute("INSERT INTO ran (word, attempt, pid) VALUES (%s, %s, %s)", values)
    return {"word": word}


@task(takes_context=True)
def later(context: TaskContext, word: str) -> None:
    if context.attempt == 1:
        raise Retry("not yet", delay=0.2)
    _ran(context, word)


@task(takes_context=True, every="1s", name="tick")
def tick(context: TaskContext) -> None:
    _ran(context, "tick")
