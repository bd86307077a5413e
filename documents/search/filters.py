"""Filters on the attributes of files, as OpenAI's vector stores have them: comparisons, and combinations of filters."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

AttributeValue = str | float | bool
ComparisonOperator = Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]

_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


@dataclass(frozen=True)
class Comparison:
    """Compares one attribute of a file to a value, or with `in` and `nin` to several.

    Values of different types (text, number, truth value) are not equal and have no order. A file without the attribute
    passes `ne` and `nin` only.
    """

    key: str
    operator: ComparisonOperator
    value: AttributeValue | Sequence[AttributeValue]

    def passes(self, attributes: Mapping[str, AttributeValue]) -> bool:
        """Return whether a file with these attributes passes."""
        values: Sequence[AttributeValue]
        values = self.value if isinstance(self.value, Sequence) and not isinstance(self.value, str) else [self.value]
        has_value, attribute = self.key in attributes, attributes.get(self.key, "")
        if self.operator in _ORDERED:
            compare = _ORDERED[self.operator]
            return has_value and all(_kind(attribute) is _kind(each) and compare(attribute, each) for each in values)
        is_one = has_value and any(_kind(attribute) is _kind(each) and attribute == each for each in values)
        return is_one is (self.operator in ("eq", "in"))


@dataclass(frozen=True)
class Combination:
    """A filter that a file passes if it passes all (`and`) or one (`or`) of several filters."""

    operator: Literal["and", "or"]
    filters: Sequence[Comparison | Combination]

    def passes(self, attributes: Mapping[str, AttributeValue]) -> bool:
        """Return whether a file with these attributes passes."""
        passed = (each.passes(attributes) for each in self.filters)
        return all(passed) if self.operator == "and" else any(passed)


Filter = Comparison | Combination


def _kind(value: AttributeValue) -> type:
    if isinstance(value, bool):
        return bool
    return str if isinstance(value, str) else float
