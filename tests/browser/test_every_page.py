"""Each page in a browser: what axe finds in light and in dark, and whether a phone has to scroll sideways."""

from __future__ import annotations

import importlib
from urllib.parse import urlencode

import pytest
from real_browser import missing
from servers import wait_until

from console.routes import PAGES

Q, DEAD, TOPIC = {"name": "orders"}, {"name": "orders_dead"}, {"name": "events"}
ADDRESSES: dict[str, list[dict[str, str]]] = {
    "/": [{}],
    "/topics": [{}],
    "/failed": [{}],
    "/receivers": [{}],
    "/schedules": [{}],
    "/queue": [Q, DEAD],
    "/queue/publish": [Q, {**Q, "copy": "2"}, TOPIC],
    "/queue/end": [{**Q, "what": "purge"}, {**Q, "what": "drop"}, {**TOPIC, "what": "drop"}],
    "/topic/group": [TOPIC],
    "/schedule/new": [Q],
    "/message": [{**Q, "id": "1"}, {**DEAD, "id": "3"}],
    "/create": [{}, {"kind": "topic"}],
    "/message/edit": [{**Q, "id": "1"}, {**DEAD, "id": "3"}],
    "/dead": [DEAD],
    "/dead/ask": [{**DEAD, "what": "redrive", "of": "all"}],
    "/messages/ask": [{**Q, "verb": "reject", "column": "customer", "test": "contains", "value": "a"}],
    "/queue/receivers": [Q],
    "/queue/options": [Q],
    "/queue/schedules": [Q],
    "/topic": [TOPIC],
    "/topic/seek": [
        {**TOPIC, "group": "billing"},
        {**TOPIC, "group": "billing", "to": "earliest"},
        {**TOPIC, "group": "billing", "to": "offset", "value": "x"},
    ],
    "/event-groups": [{}],
    "/log": [{}],
    "/system": [{}],
}
LONG = "a_value_without_a_blank_" * 20

# The pages are the same on all backends.
pytestmark = [pytest.mark.parametrize("place", ["embedded"], indirect=True), pytest.mark.long]


def test_every_page_is_among_them(place):
    assert set(ADDRESSES) == {page.path for page in PAGES if page.path and not page.refresh}


@pytest.fixture
def shop(gate, sql):
    """Queues with something in each of their pages, and values as long as they come."""
    if "orders" not in sql.column("SHOW QUEUES"):
        sql("CREATE QUEUE orders (customer VARCHAR(600), amount INT)")
        sql("INSERT INTO orders (customer, amount) VALUES ('ann', 1), (%s, 2), ('bob', 3), (%s, 4)", LONG, LONG)
        sql("SELECT id FROM STREAM orders LIMIT 2 WAIT 10 WITH (consumer = 'mailer-3')")
        sql(f"NACK orders 1 DELAY 3600 REASON '{LONG}'")
        sql(f"REJECT orders 3 REASON '{LONG}'")
        sql("REJECT orders 4 REASON 'HTTP 503'")
        sql("CREATE SCHEDULE nightly ON orders CRON '0 2 * * *' (customer) VALUES ('report')")
        sql("CREATE TOPIC events (payload VARCHAR(600))")
        sql("CREATE GROUP billing ON events")
        sql("INSERT INTO events (payload) VALUES (%s)", LONG)
        sql("CREATE QUEUE steps (step INT, job INT) WITH (group_key = 'job')")
        sql("INSERT INTO steps (step, job) VALUES (1, 7), (2, 7)")
        wait_until(lambda: "orders_dead" in sql.column("SHOW QUEUES"), 20, "the dead-letter queue")
        wait_until(lambda: sql.value("SELECT COUNT(*) FROM orders_dead") == 2, 20, "the dead letters")
    return gate


def addresses(gate):
    for path, all_given in ADDRESSES.items():
        for given in all_given:
            yield f"{path}?{urlencode({'db': gate.database, **given})}" if given else path


def undone(page, gate):
    """Shows what follows an action, and a form that is refused: they have no address of their own."""
    page.goto(f"/queue?db={gate.database}&name=orders")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("status").get_by_role("button", name="Resume").wait_for()
    yield "after an action"
    page.get_by_role("status").get_by_role("button", name="Resume").click()
    page.get_by_role("status").get_by_role("button", name="Pause").wait_for()
    page.get_by_label("Select message 2").check()
    page.get_by_role("button", name="Reject…").click()
    page.get_by_role("heading", name="Reject: message 2").wait_for()
    yield "the question"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(shop, person, visitor, scheme):
    try:
        axe = importlib.import_module("axe_playwright_python.sync_playwright").Axe()
    except ImportError:
        missing("axe-playwright-python")
    pages = [("/login", visitor(scheme=scheme))]
    pages[0][1].goto("/login")
    page = person(scheme=scheme)
    found = []

    def shown():
        for address in ("/login", *addresses(shop)):
            page.goto(address)
            page.locator("details").evaluate_all("all => all.forEach(each => each.open = true)")
            yield address
        yield from undone(page, shop)

    for address in shown():
        results = axe.run(page)
        found += [f"{address}: {each['id']}: {node['html'][:200]}"
                  for each in results.response["violations"] for node in each["nodes"]]  # fmt: skip
    assert found == []


def test_a_phone_does_not_scroll_sideways(shop, person):
    page = person(width=360)
    wide = []

    def shown():
        for address in ("/login", *addresses(shop)):
            page.goto(address)
            page.locator("details").evaluate_all("all => all.forEach(each => each.open = true)")
            yield address
        yield from undone(page, shop)

    for address in shown():
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 360:
            wide.append((address, width))
    assert wide == []


def test_light_and_dark_follow_the_system_and_the_switch(shop, visitor):
    page = visitor(scheme="dark")
    page.goto("/login")

    def background():
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    dark = background()
    page.get_by_role("button", name="Change between light and dark").click()
    assert background() != dark
    page.reload()
    assert background() != dark, "the choice is kept"
