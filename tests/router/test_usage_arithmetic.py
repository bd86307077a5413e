"""Arithmetic of usage: sums do not depend on how parts are split, and bounds are bounds of every counter."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from router.messages import Usage, UsagePart
from router.usage_arithmetic import NO_USAGE, exceeds, least, least_parts, merged, most, most_parts, total

counts = st.integers(0, 2**40)
usages = st.builds(
    lambda prompt, completion, cached, units: Usage(
        prompt_tokens=prompt, completion_tokens=completion, cached_tokens=min(cached, prompt), units=units
    ),
    counts,
    counts,
    counts,
    st.dictionaries(st.sampled_from(["call", "512x512"]), st.integers(1, 9)),
)
parts = st.lists(st.builds(UsagePart, model=st.sampled_from(["m", "n", "tool.weather"]), usage=usages), max_size=8)


@given(parts, st.randoms(use_true_random=False))
def test_merged_parts_have_the_same_totals_in_any_order(found: list[UsagePart], chance: random.Random) -> None:
    shuffled = chance.sample(found, len(found))
    one, other = ({each.model: each.usage for each in merged(order)} for order in (found, shuffled))
    assert one == other
    assert total(one.values()) == total(each.usage for each in found)
    assert merged(merged(found)) == merged(found)
    assert merged([*merged(found[:3]), *found[3:]]) == merged(found)


@given(usages, usages)
def test_the_least_and_the_most_of_two_usages_bound_both(one: Usage, other: Usage) -> None:
    for each in (one, other):
        assert not exceeds(least(one, other), each)
        assert not exceeds(each, most(one, other))
    assert exceeds(one, other) == (exceeds(one, least(one, other)) or most(one, other) != _with_cache(other, one))


def _with_cache(usage: Usage, other: Usage) -> Usage:
    return most(usage, Usage(prompt_tokens=0, cached_tokens=other.cached_tokens))


@given(parts, parts)
def test_the_least_and_the_most_of_parts_bound_both(one: list[UsagePart], other: list[UsagePart]) -> None:
    smaller = {each.model: each.usage for each in least_parts(one, other)}
    larger = {each.model: each.usage for each in most_parts(one, other)}
    for found in (one, other):
        usage = {each.model: each.usage for each in merged(found)}
        assert not any(exceeds(each, usage.get(model, NO_USAGE)) for model, each in smaller.items())
        assert not any(exceeds(each, larger.get(model, NO_USAGE)) for model, each in usage.items())


def test_parts_of_unknown_models_and_units_are_left_out_of_the_least() -> None:
    used = [UsagePart(model="tool.weather", usage=Usage(prompt_tokens=0, units={"call": 2}))]
    assert least_parts(used, []) == ()
    bound = [UsagePart(model="tool.weather", usage=Usage(prompt_tokens=0, units={"call": 1, "day": 1}))]
    assert least_parts(used, bound)[0].usage.units == {"call": 1}
