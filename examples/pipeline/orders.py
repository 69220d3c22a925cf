"""A web shop's orders, made up: the same ones for the same seed, so that every sum can be checked."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PRODUCTS = {
    "tea pot": 3490, "tea cup": 990, "green tea": 1250, "black tea": 1090, "sugar bowl": 1890, "tray": 4200,
    "samovar": 38900, "spoon": 390,
}  # fmt: skip
TOWNS = ("Aachen", "Bergen", "Cork", "Dijon", "Évora", "Faro", "Gdańsk")
_NAMES = ("ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal", "ida", "jon")
_BAD_EVERY = 400  # orders: one whose quantity cannot be
BIG_CENTS = 100_000


@dataclass(frozen=True)
class Order:
    """A line of the shop's order book. Money in cents."""

    order_no: str
    customer: str
    town: str
    product: str
    quantity: int
    cents: int

    @property
    def good(self) -> bool:
        """Whether it can be delivered."""
        return self.quantity > 0

    @property
    def big(self) -> bool:
        """Whether somebody should be told."""
        return self.cents >= BIG_CENTS


def made(count: int, seed: int) -> Iterator[Order]:
    """So many orders."""
    chance = random.Random(seed)
    products = list(PRODUCTS)
    for number in range(1, count + 1):
        product = chance.choice(products)
        quantity = -1 if chance.randrange(_BAD_EVERY) == 0 else min(40, 1 + int(chance.expovariate(0.6)))
        customer = f"{chance.choice(_NAMES)}{chance.randrange(500)}"
        town = chance.choice(TOWNS)
        yield Order(f"A{number:07}", customer, town, product, quantity, quantity * PRODUCTS[product])


def sums(orders: Sequence[Order]) -> dict[str, tuple[int, int]]:
    """By product: how many orders, and what they come to. What Spark has to find too."""
    found: dict[str, tuple[int, int]] = {}
    for order in orders:
        if order.good:
            count, cents = found.get(order.product, (0, 0))
            found[order.product] = (count + 1, cents + order.cents)
    return found
