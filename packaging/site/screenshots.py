"""The pictures of the web console in docs/images: a proxy of its own with a demo that really runs, and a browser.

    python packaging/site/screenshots.py docs/images

The demo runs for DEMO_SECONDS, so that there are rates to see. Each picture is made smaller, to 256 colours at most.
"""

from __future__ import annotations

import io
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pymysql
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from queuegate_worker.testing.server import environment

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO_SECONDS = 60.0
BYTES_MAX = 120_000
WIDTH, HEIGHT = 1280, 860
_START_SECONDS = 30.0
_ERRORS = ("HTTP 503 from the payment provider", "JSON: no field customer", "no such product: 40031")

_TABLES = (
    "CREATE QUEUE emails (recipient VARCHAR(200), body TEXT) WITH (max_attempts = 5)",
    "CREATE QUEUE orders (customer VARCHAR(60), payload JSON) WITH (max_attempts = 2, min_backoff = '1s')",
    "CREATE QUEUE reports (name VARCHAR(60), format VARCHAR(10))",
    "CREATE QUEUE thumbnails (path VARCHAR(200), width INT)",
    "CREATE TOPIC prices (product INT, price DECIMAL(10, 2))",
    "CREATE GROUP search ON prices START AT EARLIEST",
)


class Demo:
    """Applications that send, receive and fail, each on a connection of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def connect(self) -> pymysql.Connection[Any]:
        """A client of the proxy."""
        return pymysql.connect(host="127.0.0.1", port=self._port, user="root", database="main", autocommit=True)

    def start(self) -> None:
        """Make the queues, and begin."""
        with self.connect() as connection, connection.cursor() as cursor:
            for sql in _TABLES:
                cursor.execute(sql)
            cursor.execute("INSERT INTO reports (name, format) VALUES ('sales', 'pdf') DELAY '3h'")
        for each in (self._send, self._mail, self._sell, self._sell, self._shrink):
            thread = threading.Thread(target=each, daemon=True)
            thread.start()
            self._threads.append(thread)

    def end(self) -> None:
        """All of them, after what they are doing."""
        self._ended.set()
        for thread in self._threads:
            thread.join(10)

    def _loop(self, work: Callable[[Any, random.Random], None], seconds: float) -> None:
        chance = random.Random(7)
        with self.connect() as connection, connection.cursor() as cursor:
            while not self._ended.wait(seconds * chance.random()):
                work(cursor, chance)

    def _send(self) -> None:
        def work(cursor: Any, chance: random.Random) -> None:
            person = chance.choice(("ann", "bob", "carol", "dave", "erin"))
            cursor.execute("INSERT INTO emails (recipient, body) VALUES (%s, 'Hello')", (f"{person}@example.com",))
            payload = f'{{"product": {chance.randrange(40_000, 40_100)}, "amount": {chance.randrange(1, 9)}}}'
            cursor.execute("INSERT INTO orders (customer, payload) VALUES (%s, %s)", (person, payload))
            cursor.execute("INSERT INTO thumbnails (path, width) VALUES ('/photos/7.jpg', 320), ('/photos/8.jpg', 320)")
            cursor.execute("INSERT INTO prices (product, price) VALUES (%s, 9.90)", (chance.randrange(100),))

        self._loop(work, 0.2)

    def _mail(self) -> None:
        self._receive("emails", "mailer-1", 0.0)

    def _sell(self) -> None:
        self._receive("orders", "shop-2", 0.12)

    def _shrink(self) -> None:
        self._receive("thumbnails", "resize-1", 0.02)

    def _receive(self, queue: str, consumer: str, failing: float) -> None:
        stream = f"SELECT id FROM STREAM {queue} LIMIT 2 WAIT 1 WITH (consumer = '{consumer}')"

        def work(cursor: Any, chance: random.Random) -> None:
            cursor.execute(stream)
            for (id_,) in cursor.fetchall():
                if chance.random() >= failing:
                    cursor.execute(f"ACK {queue} {id_}")
                elif chance.random() < 0.5:
                    cursor.execute(f"NACK {queue} {id_} REASON %s", (chance.choice(_ERRORS),))
                else:
                    cursor.execute(f"REJECT {queue} {id_} REASON %s", (chance.choice(_ERRORS),))

        self._loop(work, 0.15)


def started(folder: Path) -> tuple[subprocess.Popen[bytes], int, int]:
    """A proxy with its console, and the ports of both. Raises TimeoutError."""
    log, settings = folder / "log", folder / "config.yaml"
    settings.write_text(f"listen: 127.0.0.1:0\nbackend: sqlite:///{folder}/queue.db\nconsole:\n  listen: 127.0.0.1:0\n")
    with log.open("wb") as output:
        command = [sys.executable, "-m", "queuegate", "serve", "--config", str(settings)]
        process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=output, stderr=output)
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        said = log.read_text()
        proxy = re.search(r"listening on 127\.0\.0\.1:(\d+)", said)
        console = re.search(r'"console on [^"]+" listen=127\.0\.0\.1:(\d+)', said)
        if proxy and console:
            return process, int(proxy[1]), int(console[1])
        threading.Event().wait(0.05)
    process.kill()
    raise TimeoutError(f"the proxy does not start:\n{log.read_text()}")


def pictures(page: Page, demo: Demo) -> dict[str, bytes]:
    """Each page by the name of its picture."""
    with demo.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM orders_dead ORDER BY CHAR_LENGTH(failed_attempts) DESC, id LIMIT 1")
        (failed,) = cursor.fetchone() or (1,)
    found = {}
    for name, path, given in (
        ("overview", "/", {}),
        ("queue", "/queue", {"name": "orders"}),
        ("message", "/message", {"name": "orders_dead", "id": failed}),
        ("dead-letters", "/dead", {"name": "orders_dead"}),
    ):
        page.goto(f"{path}?{urlencode({'db': 'main', **given})}" if given else path)
        page.locator("h1").wait_for()
        found[f"console-{name}.png"] = page.screenshot(animations="disabled")
    return found


def smaller(png: bytes) -> bytes:
    """The same picture with as many colours as fit into BYTES_MAX, 256 at first."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    for colours in (256, 128, 64, 32):
        output = io.BytesIO()
        image.quantize(colours, dither=Image.Dither.NONE).save(output, "PNG", optimize=True)
        if output.tell() <= BYTES_MAX:
            break
    return output.getvalue()


def main(folder: Path) -> None:
    """Run the demo, and write the pictures."""
    program = shutil.which("chromium")
    if program is None:
        sys.exit("chromium is not installed")
    with tempfile.TemporaryDirectory() as temporary:
        process, proxy_port, console_port = started(Path(temporary))
        try:
            demo = Demo(proxy_port)
            demo.start()
            threading.Event().wait(DEMO_SECONDS)
            with sync_playwright() as playwright:
                options = ["--no-sandbox"] if os.geteuid() == 0 else []
                browser = playwright.chromium.launch(executable_path=program, args=options)
                page = browser.new_page(
                    base_url=f"http://127.0.0.1:{console_port}", viewport={"width": WIDTH, "height": HEIGHT},
                    color_scheme="light", locale="en-GB", timezone_id="UTC",
                )  # fmt: skip
                page.goto("/login")
                page.get_by_label("Account").fill("root")
                page.get_by_role("button", name="Log in").click()
                page.get_by_role("heading", name="Overview").wait_for()
                found = pictures(page, demo)
                browser.close()
            demo.end()
        finally:
            process.terminate()
            process.wait(30)
    folder.mkdir(parents=True, exist_ok=True)
    for name, png in found.items():
        (folder / name).write_bytes(small := smaller(png))
        print(f"{folder / name}: {len(small):,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
