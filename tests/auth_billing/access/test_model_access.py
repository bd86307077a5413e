"""Access to models: lists of permitted and of forbidden models, and their intersection."""

from __future__ import annotations

import pytest

from auth_billing.access.model_access import (
    ALL_MODELS,
    MAX_MODEL_NAME,
    MAX_MODELS,
    UNRESTRICTED,
    ModelAccess,
    ModelPolicy,
    PolicyMode,
    checked_models,
)
from auth_billing.errors import UnacceptableValue

ONLY_A = ModelPolicy(PolicyMode.ALLOW, frozenset({"a", "b"}))
NOT_A = ModelPolicy(PolicyMode.DENY, frozenset({"a"}))
NOTHING = ModelPolicy(PolicyMode.ALLOW, frozenset())


@pytest.mark.parametrize(
    ("policies", "permitted"),
    [
        ([], {"a", "b", "c"}),
        ([UNRESTRICTED], {"a", "b", "c"}),
        ([ONLY_A], {"a", "b"}),
        ([NOT_A], {"b", "c"}),
        ([ONLY_A, NOT_A], {"b"}),
        ([NOT_A, ONLY_A], {"b"}),
        ([ONLY_A, NOTHING], set()),
    ],
)
def test_a_model_may_be_used_if_every_policy_permits_it(policies: list[ModelPolicy], permitted: set[str]) -> None:
    access = ModelAccess(tuple(policies))
    assert {name for name in "abc" if access.permits([name])} == permitted


def test_a_policy_that_names_one_of_a_models_names_is_about_the_model() -> None:
    assert ONLY_A.permits(["org/model", "a"])
    assert not NOT_A.permits(["org/model", "a"])


def test_a_keys_list_can_only_narrow_access() -> None:
    assert ALL_MODELS.restricted_to(None) == ALL_MODELS
    narrow = ModelAccess((NOT_A,)).restricted_to(frozenset({"a", "b"}))
    assert [name for name in "abc" if narrow.permits([name])] == ["b"]


def test_a_list_of_models_is_covered_if_each_of_them_may_be_used() -> None:
    access = ALL_MODELS.restricted_to(frozenset({"a", "b"}))
    assert access.covers(frozenset({"a"}))
    assert not access.covers(frozenset({"a", "c"}))
    assert not access.covers(None)
    assert ALL_MODELS.covers(None)


@pytest.mark.parametrize("models", [[""], [" "], ["a\nb"], ["a" * (MAX_MODEL_NAME + 1)], [str(n) for n in range(101)]])
def test_invalid_names_and_long_lists_are_refused(models: list[str]) -> None:
    with pytest.raises(UnacceptableValue):
        checked_models(models, "models")
    assert len(checked_models([str(n) for n in range(MAX_MODELS)], "models")) == MAX_MODELS


def test_only_a_list_of_forbidden_models_forbids() -> None:
    allowed, denied = ModelPolicy(PolicyMode.ALLOW, frozenset({"a"})), ModelPolicy(PolicyMode.DENY, frozenset({"b"}))
    assert ModelAccess((allowed, denied)).forbids(["x", "b"])
    assert not ModelAccess((allowed, denied)).forbids(["c"])
    assert not ModelAccess().forbids(["b"])
