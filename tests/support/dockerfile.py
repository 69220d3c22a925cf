"""A Dockerfile read into its stages and their steps, so far as ours go, for tests where no docker can run."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Stage:
    """From one FROM to the next: each instruction with its text, in order."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [text for name, text in self.steps if name == instruction]

    def one(self, instruction: str) -> str:
        (text,) = self.all(instruction)
        return text

    def words(self, instruction: str) -> list[str]:
        """Of an instruction in the form of a list."""
        text = self.one(instruction)
        words: list[str] = json.loads(text[text.index("[") :])
        return words

    @property
    def environment(self) -> dict[str, str]:
        """What ENV sets, with PATH put before that of the base."""
        pairs = [pair.partition("=") for text in self.all("ENV") for pair in text.split()]
        return {name: value.removesuffix(":$PATH") for name, _, value in pairs}


def stages(path: Path) -> list[Stage]:
    """What a Dockerfile says. An ARG before the first FROM is its default in the FROMs."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: list[Stage] = []
    given: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            base, _, name = rest.partition(" AS ")
            found.append(Stage(re.sub(r"\$\{(\w+)\}", lambda match: given[match[1]], base), name))
        elif not found:
            name, _, default = rest.partition("=")
            given[name] = default
        else:
            found[-1].steps.append((instruction, rest.strip()))
    return found
