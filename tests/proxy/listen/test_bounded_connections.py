"""Who has to go where one more comes than there is room for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.listen.bounded_connections import BoundedConnections


def test_the_oldest_of_its_own_address_goes():
    crowd: BoundedConnections[str] = BoundedConnections(10, 2)
    assert [crowd.add(name, "a") for name in ("one", "two", "three")] == [None, None, "one"]
    assert crowd.add("other", "b") is None


def test_in_all_the_oldest_of_the_address_that_has_the_most_goes():
    crowd: BoundedConnections[str] = BoundedConnections(4, 4)
    for name, source in (("few", "a"), ("one", "b"), ("two", "b"), ("three", "b")):
        assert crowd.add(name, source) is None
    assert crowd.add("new", "c") == "one"


def test_who_has_said_something_goes_later():
    said = {"one": 1, "two": 2, "three": 0, "four": 1}
    crowd: BoundedConnections[str] = BoundedConnections(3, 3, lambda name: said.get(name, 2))
    for name in ("one", "two", "three"):
        crowd.add(name, "a")
    for coming, going in (("four", "three"), ("five", "one"), ("six", "four"), ("seven", "two")):
        assert crowd.add(coming, "a") == going
        crowd.discard(going)


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc"), st.booleans()), max_size=200))
def test_no_more_than_the_bounds_whatever_comes(steps):
    crowd: BoundedConnections[int] = BoundedConnections(8, 4)
    there: dict[int, str] = {}
    for number, source, coming in steps:
        if not coming:
            crowd.discard(number)
            there.pop(number, None)
        elif number not in there:
            there[number] = source
            gone = crowd.add(number, source)
            if gone is not None:
                crowd.discard(gone)
                del there[gone]
        assert sorted(crowd) == sorted(there)
        assert len(crowd) <= 8
        assert all(list(there.values()).count(source) <= 4 for source in "abc")
