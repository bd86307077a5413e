"""Every search method written as a plain recursion over whole paths, to be compared with the state machine."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

from inference_worker.search.events import Segment, SegmentEnd
from router.messages import Aggregate, SearchMethod
from tests.inference_worker.search.scripted import World


@dataclass(frozen=True)
class P:
    number: int = 0
    tree: int = 0
    segments: tuple[Segment, ...] = ()
    score: float = -math.inf
    rollout: tuple[Segment, ...] = ()

    @property
    def tokens(self) -> list[int]:
        return [token for segment in self.segments for token in segment.token_ids]

    @property
    def end(self) -> SegmentEnd:
        return self.segments[-1].end if self.segments else SegmentEnd.FULL

    @property
    def over(self) -> bool:
        return self.end in (SegmentEnd.STOP, SegmentEnd.LENGTH)

    @property
    def number_said(self) -> str | None:
        numbers = [token for token in self.tokens if token > 1]
        return str(numbers[-1]) if numbers else None


def answer(world: World) -> tuple[list[int], SegmentEnd]:
    """Return the tokens of the chosen path, and its end; `FULL` if it is incomplete."""
    if world.search.method is SearchMethod.SELF_CONSISTENCY:
        path = waves(world, [], 0, 0)
    elif world.search.method in (SearchMethod.BEAM_SEARCH, SearchMethod.DVTS, SearchMethod.LOOKAHEAD):
        path = stepwise(world, 0, [P()], [], 0, 0, 0)
    else:
        path = whole(world)
    return path.tokens, path.end if path.over else SegmentEnd.FULL


def seed_of(world: World, step: int, path: int) -> int:
    return int(hashlib.sha256(f"{world.seed}:{step}:{path}".encode()).hexdigest()[:16], 16) // 2


def favourite(paths: list[P]) -> P:
    best = max(path.score for path in paths)
    equal = [path for path in paths if path.score == best]
    complete = [path for path in equal if path.end is SegmentEnd.STOP]
    return min(complete or equal, key=lambda path: path.number)


def top(paths: list[P], count: int) -> list[P]:
    if count == 0 or not paths:
        return []
    best = max(path.score for path in paths)
    first = min((path for path in paths if path.score == best), key=lambda path: path.number)
    return [first, *top([path for path in paths if path is not first], count - 1)]


def verified(world: World, path: P, steps: list[str]) -> P:
    scores = world.verify(steps).steps
    match world.search.aggregate:
        case Aggregate.LAST:
            score = scores[-1]
        case Aggregate.MIN:
            score = math.nan if any(map(math.isnan, scores)) else min(scores)
        case Aggregate.PRODUCT:
            score = math.prod(scores)
        case Aggregate.MEAN:
            score = sum(scores) / len(scores)
    return replace(path, score=-math.inf if math.isnan(score) else score)


def reading(world: World, paths: list[P]) -> int:
    around = world.prompt_tokens + 80 * world.search.judge
    return sum(math.ceil(1.5 * (around + len(path.tokens) + ahead(path))) for path in paths)


def ahead(path: P) -> int:
    return sum(len(segment.token_ids) for segment in path.rollout)


def rolled_out(world: World, path: P, most: int) -> P:
    """Add a step to the path's rollout, if neither has ended."""
    line = path.segments + path.rollout
    tokens = [token for segment in line for token in segment.token_ids]
    most = min(most, world.max_tokens - len(tokens))
    if line[-1].end in (SegmentEnd.STOP, SegmentEnd.LENGTH) or most == 0:
        return path
    return replace(path, rollout=(*path.rollout, world.generate(tokens, 0, 0, most, to_end=False, greedy=True)))


def stepwise(world: World, step: int, live: list[P], over: list[P], made: int, used: int, read: int) -> P:
    search = world.search
    count = search.expansions * search.n if step == 0 else search.expansions
    share = (search.budget_tokens - used) // (count * len(live) * (search.lookahead_steps + 1)) if live else 0
    least = read + reading(world, live) * search.expansions
    if step == search.max_steps or share == 0 or (step > 0 and least > search.budget_tokens):
        return favourite(live + over)
    children: list[P] = []
    for parent in sorted(live, key=lambda path: path.number):
        most = min(share, search.step_tokens, world.max_tokens - len(parent.tokens))
        for index in range(count):
            number = made + len(children) + 1
            seed = seed_of(world, step, parent.number)
            segment = world.generate(parent.tokens, seed, index, most, to_end=False)
            tree = index // search.expansions if step == 0 else parent.tree
            children.append(P(number, tree, (*parent.segments, segment), parent.score))
    used += sum(len(child.segments[-1].token_ids) for child in children)
    for _ in range(search.lookahead_steps):
        if read + reading(world, children) <= search.budget_tokens:
            children = [rolled_out(world, child, min(share, search.step_tokens)) for child in children]
    used += sum(map(ahead, children))
    affordable = read + reading(world, children) <= search.budget_tokens
    if affordable:
        read += reading(world, children)
        children = [
            verified(world, child, merged([segment.text for segment in child.segments + child.rollout]))
            for child in children
        ]
    children = [replace(child, rollout=()) for child in children]
    if search.method is not SearchMethod.DVTS:
        kept = top(children, search.n - len(over))
    else:
        kept = [path for tree in range(search.n) for path in top([c for c in children if c.tree == tree], 1)]
    live, over = [path for path in kept if not path.over], over + [path for path in kept if path.over]
    if not affordable:
        return favourite(live + over)
    return stepwise(world, step + 1, live, over, made + len(children), used, read)


def whole(world: World) -> P:
    search = world.search
    most = min(world.max_tokens, search.budget_tokens // search.n)
    if most == 0:
        return P()
    paths = [P(index + 1, 0, (world.generate([], world.seed, index, most, to_end=True),)) for index in range(search.n)]
    affordable = reading(world, paths) <= search.budget_tokens
    if not affordable:
        return favourite(paths)
    paths = [verified(world, path, merged(split(path.segments[0].text))) for path in paths]
    said = {path.number_said for path in paths} - {None}
    if search.method is SearchMethod.BEST_OF_N or not said:
        return favourite(paths)
    groups = [[path for path in paths if path.number_said == each] for each in said]
    weights = [sum(max(path.score, 0) for path in group) for group in groups]
    heaviest = [group for group, weight in zip(groups, weights, strict=True) if weight == max(weights)]
    return favourite(min(heaviest, key=lambda group: group[0].number))


def merged(steps: list[str]) -> list[str]:
    """Join blank steps to the step before; if there is none, to the step after."""
    for position, step in enumerate(steps):
        if len(steps) > 1 and not step.strip():
            first = max(position - 1, 0)
            return merged([*steps[:first], steps[first] + steps[first + 1], *steps[first + 2 :]])
    return steps


def split(text: str) -> list[str]:
    """Cut after each separator."""
    head, separator, tail = text.partition("\n\n")
    return [head + separator, *(split(tail) if tail else [])]


def waves(world: World, paths: list[P], wave: int, used: int) -> P:
    search = world.search
    left = search.n - len(paths)
    said = [path.number_said or "" for path in paths]
    if decided(said, left, search.confidence):
        return winner(paths)
    leading = winner(paths).number_said or "first"
    least = max(1, 3 - len(paths), len(paths) // 6)
    counts = range(min(left, least), left)
    count = next((each for each in counts if decided([*said, *[leading] * each], left - each, search.confidence)), left)
    share = (search.budget_tokens - used) // count
    if share == 0:
        return winner(paths)
    segments = [
        world.generate([], seed_of(world, wave, 0), index, min(share, world.max_tokens), to_end=True)
        for index in range(count)
    ]
    more = [P(len(paths) + index + 1, 0, (segment,)) for index, segment in enumerate(segments)]
    return waves(world, paths + more, wave + 1, used + sum(len(segment.token_ids) for segment in segments))


def winner(paths: list[P]) -> P:
    said = [path.number_said for path in paths]
    voters = [path for path in paths if path.number_said]
    return max(voters or paths or [P()], key=lambda path: (path.number_said is not None) * said.count(path.number_said))


def decided(said: list[str], left: int, confidence: float) -> bool:
    """Whether the outstanding votes leave the leader of those that `said` a result before the second."""
    results = [each for each in said if each]
    if left == 0 or not results:
        return left == 0
    leading = first_most_frequent(results)
    rivals = [each for each in results if each != leading]
    second = first_most_frequent(rivals) if rivals else "new"
    counts = results.count(leading), results.count(second)
    tied = second == "new" or results.index(leading) < results.index(second)
    return float(stays(*counts, len(said) - sum(counts), left, tied)) >= confidence


@cache
def stays(leader: int, second: int, others: int, left: int, wins_ties: bool) -> Fraction:
    """The probability that the second does not lead after `left` draws from an urn.

    It has a ball more of each kind than votes; a drawn ball goes back with another of its kind.
    """
    if left == 0:
        return Fraction(second < leader + wins_ties)
    ours = stays(leader + 1, second, others, left - 1, wins_ties)
    theirs = stays(leader, second + 1, others, left - 1, wins_ties)
    rest = stays(leader, second, others + 1, left - 1, wins_ties)
    total = leader + second + others + 3
    return ((leader + 1) * ours + (second + 1) * theirs + (others + 1) * rest) / total


def first_most_frequent(votes: list[str]) -> str:
    return max(votes, key=votes.count)
