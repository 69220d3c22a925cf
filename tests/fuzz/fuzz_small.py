"""A failing input made small: inputs, steps and bytes are left out as long as it goes on failing the same way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace

from fuzz_input import Input

SECONDS_MAX = (
    10.0  # for one failure, in which hundreds of plays of a small input fit; the last bytes are not worth more
)

Play = Callable[[list[Input]], list[str]]

_PLACE = re.compile(r"line \d+, in (\w+)")


def kind_of(complaint: str) -> str:
    """What a complaint is about, without what differs from one play to the next."""
    lines = complaint.splitlines()
    told = lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]} {''.join(_PLACE.findall(complaint)[-1:])}"
    return re.sub(r"0x[0-9a-f]+|\d+|b?'[^']*'|b?\"[^\"]*\"", "_", told)[:200]


def smallest(inputs: list[Input], play: Play) -> list[Input]:
    """See the module. What fails only after what was before it keeps that."""
    until = time.process_time() + SECONDS_MAX
    wanted = {kind_of(complaint) for complaint in play(inputs)}
    if not wanted:
        return inputs  # not twice the same: told as it came

    def fails(candidate: list[Input]) -> bool:
        return time.process_time() < until and bool(wanted & {kind_of(complaint) for complaint in play(candidate)})

    inputs = inputs[-1:] if fails(inputs[-1:]) else _fewer_inputs(inputs, fails)
    last = _fewer_steps(inputs, fails)
    return _shorter(last, fails)


def _fewer_inputs(inputs: list[Input], fails: Callable[[list[Input]], bool]) -> list[Input]:
    size = len(inputs) // 2
    while size:
        start = 0
        while start < len(inputs) - 1:
            candidate = inputs[:start] + inputs[min(start + size, len(inputs) - 1) :]
            if fails(candidate):
                inputs = candidate
            else:
                start += size
        size //= 2
    return inputs


def _fewer_steps(inputs: list[Input], fails: Callable[[list[Input]], bool]) -> list[Input]:
    size = max(1, len(inputs[-1].steps) // 2)
    while size:
        start = 0
        while start < len(inputs[-1].steps):
            candidate = [*inputs[:-1], inputs[-1].without(start, size)]
            if fails(candidate):
                inputs = candidate
            else:
                start += size
        size //= 2
    for number in reversed(range(len(inputs[-1].spoils))):
        fewer = inputs[-1].spoils[:number] + inputs[-1].spoils[number + 1 :]
        candidate = [*inputs[:-1], replace(inputs[-1], spoils=fewer)]
        if fails(candidate):
            inputs = candidate
    return inputs


def _shorter(inputs: list[Input], fails: Callable[[list[Input]], bool]) -> list[Input]:
    """Fewer bytes in what is sent, the header's length kept right where it was."""
    for number, (name, value) in enumerate(inputs[-1].steps):
        if name != "send" or not isinstance(value, bytes):
            continue
        size = len(value) // 2
        while size:
            start = 4
            while start < len(value):
                shorter = value[:start] + value[start + size :]
                if int.from_bytes(value[:3], "little") == len(value) - 4:
                    shorter = (len(shorter) - 4).to_bytes(3, "little") + shorter[3:]
                steps = (*inputs[-1].steps[:number], ("send", shorter), *inputs[-1].steps[number + 1 :])
                candidate = [*inputs[:-1], replace(inputs[-1], steps=steps)]
                if fails(candidate):
                    inputs, value = candidate, shorter
                else:
                    start += size
            size //= 2
    return inputs
