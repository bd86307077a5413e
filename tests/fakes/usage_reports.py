"""Usage reports over a list of jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from auth_billing.money.billing_records import JobRecord, JobState, SettlementSource
from auth_billing.money.installation_usage import InstallationUsageRow
from auth_billing.money.usage_reports import JOB_PREFIXES, Dimension, UsageFilter, UsageKind, UsageRow
from auth_billing.prices.pricing import Price
from router.messages import Usage
from tests.fakes.accounts import Absence


class ListUsageReports:
    def __init__(self) -> None:
        self.absence = Absence()
        self.records: list[JobRecord] = []

    async def rows(self, selection: UsageFilter, width: int, by: Sequence[Dimension], limit: int) -> list[UsageRow]:
        groups: dict[tuple[int, ...], list[_Line]] = defaultdict(list)
        for line in _lines(self._found(replace(selection, ids={**selection.ids, Dimension.MODEL: []}))):
            if (models := selection.ids.get(Dimension.MODEL)) and line.model not in models:
                continue
            group = (line.model if each is Dimension.MODEL else str(getattr(line.job, each.value)) for each in by)
            groups[int(line.at // width) * width, *group].append(line)  # type: ignore[arg-type]
        return [_row(key[0], dict(zip(by, map(str, key[1:]), strict=True)), groups[key]) for key in sorted(groups)][
            :limit
        ]

    async def count(self, selection: UsageFilter, limit: int) -> int:
        return min(limit, len(self._found(selection)))

    async def jobs(self, selection: UsageFilter) -> AsyncIterator[JobRecord]:
        for job in self._found(selection):
            yield job

    def _found(self, selection: UsageFilter) -> list[JobRecord]:
        self.absence.check()
        found = [
            (job.final.at, job.id, job)
            for job in self.records
            if job.final is not None
            and (job.state, job.organisation) == (JobState.SETTLED, selection.organisation)
            and selection.since <= job.final.at < selection.until
            and job.final.source is not SettlementSource.VOID
            and all(str(getattr(job, each.value)) in ids for each, ids in selection.ids.items() if ids)
            and selection.kind in (None, _kind_of(job))
        ]
        return [job for *_, job in sorted(found, key=lambda each: each[:2])]


class ListInstallationUsage:
    def __init__(self) -> None:
        self.found: list[InstallationUsageRow] = []
        self.until: int | None = None

    async def rows(self, since: int, until: int, limit: int) -> list[InstallationUsageRow]:
        return [each for each in self.found if since <= each.start < until][:limit]

    async def complete_until(self) -> int | None:
        return self.until


class _Line(NamedTuple):
    """The usage of a job's answer, or of a part of its steps."""

    job: JobRecord
    at: float
    model: str
    usage: Usage
    price: Price
    cost: int
    requests: int


def _lines(jobs: Iterable[JobRecord]) -> Iterator[_Line]:
    for job in jobs:
        assert job.final is not None
        final = job.final
        answer = (job.cost or 0) - sum(final.part_costs)
        yield _Line(job, final.at, job.model, final.usage, job.price, answer, 1)
        for part, cost in zip(final.parts, final.part_costs, strict=True):
            yield _Line(job, final.at, part.model, part.usage, job.part_prices[part.model], cost, 0)


def _row(start: int, group: dict[Dimension, str], lines: list[_Line]) -> UsageRow:
    parts = [(line.usage, line.price) for line in lines]
    return UsageRow(
        start=start,
        group=group,
        requests=sum(line.requests for line in lines),
        input_tokens=sum(usage.prompt_tokens for usage, _ in parts),
        cached_tokens=sum(usage.cached_tokens for usage, _ in parts),
        output_tokens=sum(usage.completion_tokens for usage, _ in parts),
        cost=sum(line.cost for line in lines),
        input_cost=sum((usage.prompt_tokens - usage.cached_tokens) * price.input for usage, price in parts),
        cached_cost=sum(usage.cached_tokens * price.cached_input for usage, price in parts),
        output_cost=sum(usage.completion_tokens * price.output for usage, price in parts),
        units=sum(sum(usage.units.values()) for usage, _ in parts),
        unit_cost=sum(price.unit_cost(usage) for usage, price in parts),
    )


def _kind_of(job: JobRecord) -> UsageKind:
    found = (kind for kind, prefix in JOB_PREFIXES.items() if job.id.startswith(prefix))
    return next(found, UsageKind.COMPLETIONS)
