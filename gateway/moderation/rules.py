"""The operator's moderation file: words and regular expressions by category, and the meaning of classifiers' labels.

    [categories.violence]
    words = ["pipe bomb"]
    patterns = ['\\bbomb\\w*\\s+threat']
    threshold = 0.7

    [labels]
    toxic = "harassment"

Expressions are matched by the Rust engine of `pydantic_core`, in time linear in the text: it has neither
back-references nor look-around, and refuses expressions that compile to too much memory. Case is ignored, and texts are
compared in the Unicode normal form NFKC, without invisible characters. Long texts are matched in overlapping slices.
"""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import SchemaError, SchemaValidator, core_schema

from gateway.errors import InvalidRequest
from gateway.moderation.categories import CATEGORIES, DEFAULT_LABELS, THRESHOLD, label_key
from gateway.moderation.visible_text import checked_form, visible
from runtime.lifecycle import StartupError

RULES_MODEL = "moderation-rules"
"""Name by which requests and policies choose the rules instead of a classifier."""
MATCHED_AT_ONCE = 100_000
"""Characters that are matched, by one expression or several, before other requests get their turn."""
SLICE = 32_768
"""Characters of a text that are normalised and matched at once; the normal form may have up to 18 times as many."""
OVERLAP = 4096
"""Characters at the end of a slice that the next slice begins with: more than a word of the rules has."""
MAX_CHARACTERS = 8 * 1024 * 1024
"""Most characters of one request's texts in their normal form, with overlaps: longer than any model's context."""
CUT = "\ua500"
"""Letter that stands for the rest of a text where it is cut, so that a part of a word is not taken for a word."""

_Category = Annotated[str, StringConstraints(min_length=1, max_length=100)]


def _seen(word: str) -> str:
    if not visible(word).strip():
        raise ValueError("the word has no visible characters")
    return word


_Word = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True), AfterValidator(_seen)]
_Pattern = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _CategoryTable(_Strict):
    words: Annotated[list[_Word], Field(max_length=10_000)] = []
    patterns: Annotated[list[_Pattern], Field(max_length=1000)] = []
    threshold: Annotated[float, Field(gt=0, le=1, strict=False)] = THRESHOLD


class _File(_Strict):
    categories: Annotated[dict[_Category, _CategoryTable], Field(max_length=100)] = {}
    labels: Annotated[dict[_Category, _Category], Field(max_length=1000)] = {}


@dataclass(frozen=True)
class ModerationRules:
    """The operator's rules, thresholds and labels; without a file the default labels and thresholds alone."""

    matchers: Mapping[str, Sequence[SchemaValidator]] = field(default_factory=dict)
    """Compiled expressions by category."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Scores from which a category is flagged, where they are not the default."""
    labels: Mapping[str, str] = field(default_factory=lambda: DEFAULT_LABELS)
    """Categories by the keys of the labels that mean them."""
    categories: tuple[str, ...] = CATEGORIES
    """OpenAI's categories, then the operator's own."""

    def meaning(self, labels: Sequence[str]) -> list[str | None]:
        """Return the category that each label of a classifier means; `None`: none."""
        return [self.labels.get(label_key(label)) for label in labels]

    def flagged(self, scores: Mapping[str, float]) -> frozenset[str]:
        """Return the categories whose scores reach their thresholds."""
        return frozenset(each for each, score in scores.items() if score >= self.thresholds.get(each, THRESHOLD))

    async def match(self, texts: Sequence[str], param: str | None = None) -> list[dict[str, float]]:
        """Return each text's scores of the categories with words or expressions: 1 if one of them is in it, else 0.

        Raises:
            InvalidRequest: the normal forms of the texts are too long to be matched; `param` names their field.
        """
        found = []
        left, matched = MAX_CHARACTERS, 0
        for text in texts:
            scores = dict.fromkeys(self.matchers, 0.0)
            for part in _slices(text):
                left -= len(part)
                if left < 0:
                    raise InvalidRequest(_TOO_LONG, param=param, code="string_above_max_length")
                if all(scores.values()):
                    break
                matched += len(part)
                for category, matchers in self.matchers.items():
                    for each in matchers if not scores[category] else ():
                        if matched >= MATCHED_AT_ONCE:
                            matched = 0
                            await asyncio.sleep(0)
                        matched += len(part)
                        if each.isinstance_python(part):
                            scores[category] = 1.0
                            break
            found.append(scores)
        return found


_TOO_LONG = (
    "The texts are too long to be checked: the moderation rules read at most "
    f"{MAX_CHARACTERS} characters of a request, in the Unicode normal form NFKC."
)


def _slices(text: str) -> Iterator[str]:
    """Yield the overlapping slices of a text in its normal form, without invisible characters; with `CUT` at cuts."""
    before, cut = "", ""
    for start in range(0, max(1, len(text)), SLICE):
        end = start + SLICE
        normal = before + checked_form(text[start:end])
        yield cut + normal + (CUT if end < len(text) else "")
        cut = CUT if len(normal) > OVERLAP else cut
        before = normal[-OVERLAP:]


def read_rules(file: str) -> ModerationRules:
    """Read the operator's moderation rules from a TOML file; the defaults if the path `file` is "".

    Raises:
        StartupError: The file can't be read, is not TOML, or has an invalid table or expression.
    """
    if not file:
        return ModerationRules()
    path = Path(file).expanduser()
    try:
        content = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise StartupError(f"can't read the moderation rules in {path}: {error.strerror}") from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:3])
        raise StartupError(f"{path}: {problems}") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise StartupError(f"can't read the moderation rules in {path}: {error}") from error
    tables = content.categories
    labels = {label_key(label): category for label, category in content.labels.items()}
    own = dict.fromkeys([*tables, *labels.values()])
    return ModerationRules(
        matchers={name: _matchers(path, name, each) for name, each in tables.items() if each.words or each.patterns},
        thresholds={name: each.threshold for name, each in tables.items()},
        labels={**DEFAULT_LABELS, **labels},
        categories=(*CATEGORIES, *(each for each in own if each not in CATEGORIES)),
    )


def _matchers(path: Path, category: str, table: _CategoryTable) -> list[SchemaValidator]:
    sources = [f"(?i){pattern}" for pattern in table.patterns]
    if table.words:
        sources.append(f"(?i)(?:^|\\W)(?:{'|'.join(map(_word, table.words))})(?:\\W|$)")
    matchers = []
    for source in sources:
        try:
            matchers.append(SchemaValidator(core_schema.str_schema(pattern=source, regex_engine="rust-regex")))
        except SchemaError as error:
            reason = str(error).strip().splitlines()[-1].strip()
            raise StartupError(f"{path}: categories.{category}: {source[:200]!r} is not supported: {reason}") from error
    return matchers


def _word(word: str) -> str:
    """Return the expression of a word or phrase; any white space may be between the words of a phrase."""
    return r"\s+".join(re.escape(each) for each in checked_form(word).split())
