"""A generator and a verifier whose outputs are functions of their inputs, and a shell that runs a search with them."""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import dataclass, field

import msgspec

from inference_worker.search.driver import SearchDriver
from inference_worker.search.events import (
    Choose,
    Command,
    Confirm,
    Event,
    Extend,
    Extended,
    PathScore,
    Read,
    ReadResults,
    Score,
    Scored,
    Segment,
    SegmentEnd,
)
from router.messages import Search, Step, StepState

SEPARATOR = "\n\n"
MODEL, VERIFIER = "generator", "prm"


def drawn(*key: object) -> int:
    return int.from_bytes(hashlib.md5(repr(key).encode()).digest()[:6], "big")


@dataclass(frozen=True)
class World:
    """What generator and verifier do in one search problem. Each token has two characters of text."""

    search: Search
    seed: int = 1
    prompt_tokens: int = 5
    max_tokens: int = 20
    with_nan: bool = False
    stop_one_in: int = 9
    score_levels: int = 6

    def driver(self) -> SearchDriver:
        return SearchDriver(
            self.search, model=MODEL, seed=self.seed, prompt_tokens=self.prompt_tokens, max_tokens=self.max_tokens
        )

    def generate(
        self, prefix: list[int], seed: int, index: int, most: int, *, to_end: bool, greedy: bool = False
    ) -> Segment:
        """Token 0 is the separator, 1 stops the answer, the others are the numbers 2, 3 and 4."""
        tokens: list[int] = []
        while len(tokens) < most:
            draw = drawn("greedy" if greedy else (seed, index), [*prefix, *tokens])
            token = 1 if draw % self.stop_one_in == 0 else (0, 2, 3, 4)[draw // 16 % 4]
            tokens.append(token)
            if token == 1:
                return self._segment(tokens, SegmentEnd.STOP)
            if len(prefix) + len(tokens) == self.max_tokens:
                return self._segment(tokens, SegmentEnd.LENGTH)
            if token == 0 and not to_end:
                return self._segment(tokens, SegmentEnd.BOUNDARY)
        return self._segment(tokens, SegmentEnd.FULL)

    @staticmethod
    def _segment(tokens: list[int], end: SegmentEnd) -> Segment:
        text = "".join(SEPARATOR if token == 0 else "!!" if token == 1 else f"{token} " for token in tokens)
        return Segment(tokens, text, end)

    def verify(self, steps: list[str]) -> PathScore:
        """With few different scores many are equal. The separator at the end of a step is not read."""
        steps = [step.removesuffix(SEPARATOR) for step in steps]
        scores = [drawn(step) % self.score_levels / (self.score_levels - 1) for step in steps]
        return PathScore(
            [
                math.nan if self.with_nan and drawn(step) % 7 == 0 else score
                for step, score in zip(steps, scores, strict=True)
            ]
        )

    def read_result(self, path: int, text: str) -> Read:
        """As a model that reads results writes them; one of seven has none."""
        numbers = [word for word in text.split() if word.isdigit()]
        tokens = drawn(text) % (self.search.result_tokens + 1)
        return Read({path: numbers[-1] if numbers and drawn(text) % 7 else None}, tokens)

    def read_tokens(self, texts: list[list[str]]) -> int:
        around = self.prompt_tokens + 80 * self.search.judge
        return sum(math.ceil(1.5 * (around + len("".join(steps)) // 2)) for steps in texts)


@dataclass
class Shell:
    """Executes the commands of a driver; it reports the ends of continuations in a random order."""

    world: World
    order: int = 0
    commands: list[Command] = field(default_factory=list)
    generated: int = 0
    read: int = 0
    graded: int = 0

    def run(self, driver: SearchDriver) -> Choose:
        shuffle, outstanding = random.Random(self.order), list[Event]()
        commands = driver.start()
        while True:
            self.commands += commands
            for command in commands:
                match command:
                    case Extend(path, prefix, count, seed, most, to_end, greedy):
                        segments = [
                            self.world.generate(prefix, seed, index, most, to_end=to_end, greedy=greedy)
                            for index in range(count)
                        ]
                        self.generated += sum(len(segment.token_ids) for segment in segments)
                        outstanding.append(Extended(path, segments))
                    case Score(_, texts):
                        tokens = self.world.read_tokens(texts)
                        written = len(texts) if self.world.search.judge else 0
                        self.read += tokens
                        self.graded += written
                        outstanding.append(Scored([self.world.verify(steps) for steps in texts], tokens, written))
                    case ReadResults(texts):
                        for path, text in texts.items():
                            read = self.world.read_result(path, text)
                            self.generated += read.tokens
                            outstanding.append(read)
                    case Choose():
                        assert not outstanding
                        assert command is commands[-1]
                        return command
            commands = driver.receive(outstanding.pop(shuffle.randrange(len(outstanding))))

    @property
    def ended_steps(self) -> list[Step]:
        """The search's ended steps, as another worker gets them."""
        confirmed = [command.step for command in self.commands if isinstance(command, Confirm)]
        done = [step for step in confirmed if step.state is StepState.DONE]
        return msgspec.json.decode(msgspec.json.encode(done), type=list[Step])
