"""Scores the assistant's rewriting of follow-up questions, by rules and by a model that the rules check."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from assistant.model_port import ModelPort
from assistant.routing.rewriting import FollowUpRewriter
from benchmarks.results import Row
from benchmarks.routing.follow_up_set import FollowUp, score
from benchmarks.routing.ways import LANGUAGES


async def score_rewriting(follow_ups: Sequence[FollowUp], model: str | None, models: ModelPort) -> list[Row]:
    """Rewrite labelled follow-up questions and return a result row for each language.

    It has the shares of right entities and of changed stand-alone questions, and times. `model` rewrites; `None`: rules
    do.
    """
    rewriter = FollowUpRewriter(model)
    rows: list[Row] = []
    for language in LANGUAGES:
        pairs: list[tuple[FollowUp, str]] = []
        seconds, by_model = [], 0
        for each in (each for each in follow_ups if each.lang == language):
            started = time.perf_counter()
            rewrite = await rewriter.rewrite(each.text, each.turns, models)
            seconds.append(time.perf_counter() - started)
            pairs.append((each, rewrite.question))
            by_model += rewrite.by == "model"
        total = score(pairs)
        if not pairs:
            continue
        rows.append(
            {
                "rewriter": model or "rules",
                "lang": language,
                "follow_ups": total.follow_ups,
                "right_entity": total.entity_share,
                "rewritten_by_model": by_model,
                "standalone": total.standalone,
                "changed": total.changed_share,
                "ms_p50": float(np.percentile(seconds, 50)) * 1000,
            }
        )
    return rows
