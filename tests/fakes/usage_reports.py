"""Usage reports over a list of jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence

from auth_billing.money.billing_records import JobRecord, JobState, SettlementSource
from auth_billing.money.installation_usage import InstallationUsageRow
from auth_billing.money.usage_reports import EMBEDDING_JOBS, Dimension, UsageFilter, UsageKind, UsageRow
from tests.fakes.accounts import Absence


class ListUsageReports:
    def __init__(self) -> None:
        self.absence = Absence()
        self.records: list[JobRecord] = []

    async def rows(self, selection: UsageFilter, width: int, by: Sequence[Dimension], limit: int) -> list[UsageRow]:
        groups: dict[tuple[int, ...], list[JobRecord]] = defaultdict(list)
        for job in self._found(selection):
            assert job.final is not None
            groups[int(job.final.at // width) * width, *(str(getattr(job, each.value)) for each in by)].append(job)  # type: ignore[arg-type]
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
            and (
                selection.kind is None or (selection.kind is UsageKind.EMBEDDINGS) == job.id.startswith(EMBEDDING_JOBS)
            )
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


def _row(start: int, group: dict[Dimension, str], jobs: list[JobRecord]) -> UsageRow:
    parts = [(job.final.usage, job.price) for job in jobs if job.final is not None]
    return UsageRow(
        start=start,
        group=group,
        requests=len(jobs),
        input_tokens=sum(usage.prompt_tokens for usage, _ in parts),
        cached_tokens=sum(usage.cached_tokens for usage, _ in parts),
        output_tokens=sum(usage.completion_tokens for usage, _ in parts),
        cost=sum(job.cost or 0 for job in jobs),
        input_cost=sum((usage.prompt_tokens - usage.cached_tokens) * price.input for usage, price in parts),
        cached_cost=sum(usage.cached_tokens * price.cached_input for usage, price in parts),
        output_cost=sum(usage.completion_tokens * price.output for usage, price in parts),
    )
