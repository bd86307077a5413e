"""Adds and bounds usages of jobs, counter by counter: tokens and units of an answer, and the parts of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from router.messages import Usage, UsagePart

NO_USAGE = Usage(prompt_tokens=0)


@dataclass(frozen=True)
class JobUsage:
    """Usage of one job: of its answer, priced as the job's model, and of its steps, in parts by model."""

    answer: Usage
    parts: tuple[UsagePart, ...] = ()


def total(usages: Iterable[Usage]) -> Usage:
    """Return the sum of several usages, counter by counter; zero if there are none."""
    prompt = completion = cached = reasoning = 0
    units: dict[str, int] = {}
    for each in usages:
        prompt += each.prompt_tokens
        completion += each.completion_tokens
        cached += each.cached_tokens
        reasoning += each.reasoning_tokens
        for unit, count in each.units.items():
            units[unit] = units.get(unit, 0) + count
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        reasoning_tokens=reasoning,
        units=units,
    )


def least(one: Usage, other: Usage) -> Usage:
    """Return the smaller value of two usages for each counter, but the larger number of cached and reasoning tokens."""
    prompt = min(one.prompt_tokens, other.prompt_tokens)
    completion = min(one.completion_tokens, other.completion_tokens)
    units = {unit: min(count, other.units[unit]) for unit, count in one.units.items() if unit in other.units}
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=min(prompt, max(one.cached_tokens, other.cached_tokens)),
        reasoning_tokens=min(completion, max(one.reasoning_tokens, other.reasoning_tokens)),
        units={unit: count for unit, count in units.items() if count},
    )


def most(one: Usage, other: Usage) -> Usage:
    """Return the larger value of two usages for each counter."""
    return Usage(
        prompt_tokens=max(one.prompt_tokens, other.prompt_tokens),
        completion_tokens=max(one.completion_tokens, other.completion_tokens),
        cached_tokens=max(one.cached_tokens, other.cached_tokens),
        reasoning_tokens=max(one.reasoning_tokens, other.reasoning_tokens),
        units={unit: max(one.units.get(unit, 0), other.units.get(unit, 0)) for unit in {**one.units, **other.units}},
    )


def merged(parts: Iterable[UsagePart]) -> tuple[UsagePart, ...]:
    """Sum up usage parts by model: return one part per model, in the order in which the models first occur."""
    by_model: dict[str, list[Usage]] = {}
    for each in parts:
        by_model.setdefault(each.model, []).append(each.usage)
    return _parts({model: total(usages) for model, usages in by_model.items()})


def least_parts(parts: Iterable[UsagePart], others: Iterable[UsagePart]) -> tuple[UsagePart, ...]:
    """Return `parts` summed up by model, each counter at most that of the same model in `others`.

    Other models are left out.
    """
    known = _by_model(others)
    return _parts({part.model: least(part.usage, known[part.model]) for part in merged(parts) if part.model in known})


def most_parts(parts: Iterable[UsagePart], others: Iterable[UsagePart]) -> tuple[UsagePart, ...]:
    """Return one part per model of `parts` or `others`, with the larger value of each counter."""
    found = _by_model(parts)
    for model, usage in _by_model(others).items():
        found[model] = most(found[model], usage) if model in found else usage
    return _parts(found)


def exceeds(usage: Usage, bound: Usage) -> bool:
    """Return whether `usage` has more tokens, or more of any unit, than `bound`."""
    tokens = usage.prompt_tokens > bound.prompt_tokens or usage.completion_tokens > bound.completion_tokens
    return tokens or any(count > bound.units.get(unit, 0) for unit, count in usage.units.items())


def _by_model(parts: Iterable[UsagePart]) -> dict[str, Usage]:
    return {part.model: part.usage for part in merged(parts)}


def _parts(by_model: Mapping[str, Usage]) -> tuple[UsagePart, ...]:
    return tuple(UsagePart(model=model, usage=usage) for model, usage in by_model.items() if usage != NO_USAGE)
