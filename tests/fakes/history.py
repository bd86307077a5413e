"""History in dictionaries: passes the same tests as the one in MongoDB."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chat_ui.history.limits import MAX_RESULTS, MAX_TERMS
from chat_ui.history.presets import Preset
from chat_ui.history.records import Claim, Conversation, Message, Owner, PageQuery, Progress, SearchResult
from chat_ui.history.storage import ByteCount
from chat_ui.importing.records import Import
from tests.fakes.accounts import Absence


class DictHistory:
    """What all stores of the history share."""

    def __init__(self) -> None:
        self.absence = Absence()
        self.conversations: dict[tuple[Owner, str], Conversation] = {}
        self.terms: dict[tuple[Owner, str], list[str]] = {}
        self.messages: dict[str, tuple[Owner, Message]] = {}
        self.leases: dict[str, tuple[str, float]] = {}
        self.stops: set[str] = set()
        self.presets: dict[tuple[Owner, str], Preset] = {}
        self.shares: dict[str, tuple[Owner, bytes, float]] = {}
        self.imports: dict[Owner, Import] = {}
        self.stored_bytes: dict[Owner, ByteCount] = {}


class _DictStore:
    """Base of the stores of one history."""

    def __init__(self, history: DictHistory) -> None:
        self._all = history


class DictConversationStore(_DictStore):
    async def add(self, owner: Owner, conversation: Conversation) -> None:
        await self.add_missing(owner, {conversation: ()})

    async def add_missing(self, owner: Owner, filed: Mapping[Conversation, Collection[str]]) -> None:
        self._all.absence.check()
        for conversation, terms in filed.items():
            if (owner, conversation.id) not in self._all.conversations:
                self._all.conversations[owner, conversation.id] = conversation
                await self.add_terms(owner, conversation.id, terms)

    async def find(self, owner: Owner, conversation_id: str) -> Conversation | None:
        self._all.absence.check()
        return self._all.conversations.get((owner, conversation_id))

    async def page(self, owner: Owner, wanted: PageQuery) -> list[Conversation]:
        found = [
            each
            for each in self._of(owner)
            if each.archived == wanted.archived and (wanted.before is None or each.order < wanted.before)
        ]
        return sorted(found, key=lambda each: each.order, reverse=True)[: wanted.limit]

    async def find_many(self, owner: Owner, conversation_ids: Collection[str]) -> list[Conversation]:
        return [each for each in self._of(owner) if each.id in conversation_ids]

    async def search(self, owner: Owner, words: Sequence[str], *, archived: bool) -> list[SearchResult]:
        found = [
            SearchResult(each.id, each.order)
            for each in self._of(owner)
            if each.archived == archived and _has(self._all.terms.get((owner, each.id), []), words)
        ]
        return sorted(found, key=lambda each: each.order, reverse=True)[:MAX_RESULTS]

    async def count(self, owner: Owner) -> int:
        return len(self._of(owner))

    async def stored_bytes(self, owner: Owner) -> int:
        return sum(each.size for each in self._of(owner))

    async def change(
        self,
        owner: Owner,
        conversation_id: str,
        changes: Mapping[str, Any],
        increments: Mapping[str, int] | None = None,
    ) -> Conversation | None:
        found = await self.find(owner, conversation_id)
        if found is None:
            return None
        grown = {name: getattr(found, name) + more for name, more in (increments or {}).items()}
        self._all.conversations[owner, conversation_id] = replace(found, **changes, **grown)
        return self._all.conversations[owner, conversation_id]

    async def set_initial_title(self, owner: Owner, conversation_id: str, title: str) -> bool:
        found = await self.find(owner, conversation_id)
        if found is None or found.title:
            return False
        await self.change(owner, conversation_id, {"title": title})
        return True

    async def add_terms(self, owner: Owner, conversation_id: str, terms: Collection[str]) -> None:
        if await self.find(owner, conversation_id) is None:
            return
        known = self._all.terms.get((owner, conversation_id), [])
        self._all.terms[owner, conversation_id] = list(dict.fromkeys([*known, *terms]))[:MAX_TERMS]

    async def remove(self, owner: Owner, conversation_id: str) -> bool:
        self._all.absence.check()
        for message_id, (whose, message) in list(self._all.messages.items()):
            if (whose, message.conversation) == (owner, conversation_id):
                del self._all.messages[message_id]
                self._all.leases.pop(message_id, None)
        if self._all.shares.get(conversation_id, (None,))[0] == owner:
            del self._all.shares[conversation_id]
        self._all.terms.pop((owner, conversation_id), None)
        return self._all.conversations.pop((owner, conversation_id), None) is not None

    def _of(self, owner: Owner) -> list[Conversation]:
        self._all.absence.check()
        return [conversation for (whose, _), conversation in self._all.conversations.items() if whose == owner]


def _has(terms: Sequence[str], words: Sequence[str]) -> bool:
    *whole, last = words
    return all(word in terms for word in whole) and any(term.startswith(last) for term in terms)


class DictMessageStore(_DictStore):
    async def add(self, owner: Owner, messages: Sequence[Message], writer: str = "", until: float = 0.0) -> None:
        self._all.absence.check()
        for message in messages:
            self._all.messages[message.id] = (owner, message)
            if message.state.is_open:
                self._all.leases[message.id] = (writer, until)

    async def add_missing(self, owner: Owner, messages: Sequence[Message]) -> None:
        await self.add(owner, [each for each in messages if each.id not in self._all.messages])

    async def remove_all(self, owner: Owner, conversation_ids: Collection[str]) -> None:
        for each in self._of(owner):
            if each.conversation in conversation_ids:
                del self._all.messages[each.id]

    async def all(self, owner: Owner, conversation_id: str) -> list[Message]:
        found = [each for each in self._of(owner) if each.conversation == conversation_id]
        return [_without_files(each) for each in sorted(found, key=lambda each: (each.created, each.id))]

    async def all_with_files(self, owner: Owner, conversation_ids: Collection[str]) -> list[Message]:
        return [each for each in self._of(owner) if each.conversation in conversation_ids]

    async def find_many(self, owner: Owner, conversation_id: str, message_ids: Collection[str]) -> list[Message]:
        return [each for each in self._of(owner) if each.conversation == conversation_id and each.id in message_ids]

    async def find(self, owner: Owner, conversation_id: str, message_id: str) -> Message | None:
        found = await self.find_many(owner, conversation_id, [message_id])
        return _without_files(found[0]) if found else None

    async def with_open_answers(self, owner: Owner, conversation_ids: Collection[str]) -> set[str]:
        return {each.conversation for each in self._of(owner) if each.state.is_open} & set(conversation_ids)

    async def matching_texts(
        self, owner: Owner, conversation_ids: Collection[str], pattern: str
    ) -> list[tuple[str, str]]:
        return [
            (each.conversation, each.text)
            for each in self._of(owner)
            if each.conversation in conversation_ids and re.search(pattern, each.text, re.IGNORECASE)
        ]

    async def request_stop(self, owner: Owner, conversation_id: str, message_id: str) -> Message | None:
        found = await self.find(owner, conversation_id, message_id)
        if found is not None and found.state.is_open:
            self._all.stops.add(message_id)
        return found

    def _of(self, owner: Owner) -> list[Message]:
        self._all.absence.check()
        return [message for whose, message in self._all.messages.values() if whose == owner]


def _without_files(message: Message) -> Message:
    return replace(message, attachments=[replace(each, text="") for each in message.attachments])


class DictAnswerStore(_DictStore):
    async def claim(self, message_id: str, writer: str, until: float, now: float) -> Claim | None:
        self._all.absence.check()
        lease = self._all.leases.get(message_id)
        if lease is None or lease[1] >= now:
            return None
        self._all.leases[message_id] = (writer, until)
        return Claim(*self._all.messages[message_id])

    async def abandoned(self, now: float, limit: int) -> list[str]:
        self._all.absence.check()
        return [message_id for message_id, (_, until) in self._all.leases.items() if until < now][:limit]

    async def renew(self, message_id: str, writer: str, until: float, progress: Progress) -> bool | None:
        if not self._is(message_id, writer):
            return None
        owner, message = self._all.messages[message_id]
        news = {name: value for name, value in vars(progress).items() if value is not None}
        self._all.messages[message_id] = (owner, replace(message, **news))
        self._all.leases[message_id] = (writer, until)
        return message_id in self._all.stops

    async def release(self, message_id: str, writer: str) -> None:
        if self._is(message_id, writer):
            self._all.leases[message_id] = ("", 0.0)

    async def finish(self, message: Message, writer: str) -> bool:
        if not self._is(message.id, writer):
            return False
        owner, before = self._all.messages[message.id]
        self._all.messages[message.id] = (owner, replace(message, attachments=before.attachments))
        del self._all.leases[message.id]
        self._all.stops.discard(message.id)
        return True

    def _is(self, message_id: str, writer: str) -> bool:
        self._all.absence.check()
        return self._all.leases.get(message_id, ("", 0.0))[0] == writer and message_id in self._all.leases


class DictPresetStore(_DictStore):
    async def add(self, owner: Owner, preset: Preset) -> None:
        self._all.absence.check()
        self._all.presets[owner, preset.id] = preset

    async def all(self, owner: Owner) -> list[Preset]:
        self._all.absence.check()
        found = [preset for (whose, _), preset in self._all.presets.items() if whose == owner]
        return sorted(found, key=lambda each: (each.name, each.id))

    async def change(self, owner: Owner, preset_id: str, changes: Mapping[str, Any]) -> Preset | None:
        self._all.absence.check()
        if (owner, preset_id) not in self._all.presets:
            return None
        self._all.presets[owner, preset_id] = replace(self._all.presets[owner, preset_id], **changes)
        return self._all.presets[owner, preset_id]

    async def remove(self, owner: Owner, preset_id: str) -> bool:
        self._all.absence.check()
        return self._all.presets.pop((owner, preset_id), None) is not None


class DictShareStore(_DictStore):
    async def put(self, owner: Owner, conversation_id: str, digest: bytes, joined: float) -> None:
        self._all.absence.check()
        self._all.shares[conversation_id] = (owner, digest, joined)

    async def remove(self, owner: Owner, conversation_id: str) -> None:
        self._all.absence.check()
        if self._all.shares.get(conversation_id, (None,))[0] == owner:
            del self._all.shares[conversation_id]

    async def find(self, digest: bytes) -> tuple[Owner, str, float | None] | None:
        self._all.absence.check()
        shares = self._all.shares.items()
        return next(((owner, key, joined) for key, (owner, each, joined) in shares if each == digest), None)


class DictImportStore(_DictStore):
    async def find(self, owner: Owner) -> Import | None:
        self._all.absence.check()
        return self._all.imports.get(owner)

    async def begin(self, owner: Owner, started: Import, before: Import | None, now: float) -> bool:
        there = await self.find(owner)
        if (there is None) != (before is None):
            return False
        if there is not None and (before is None or there.id != before.id or there.until >= now):
            return False
        self._all.imports[owner] = started
        return True

    async def renew(self, owner: Owner, at: Import) -> bool:
        there = await self.find(owner)
        if there is None or there.id != at.id:
            return False
        self._all.imports[owner] = at
        return True

    async def abandoned(self, now: float, limit: int) -> list[tuple[Owner, Import]]:
        self._all.absence.check()
        return [(owner, each) for owner, each in self._all.imports.items() if 0 < each.until < now][:limit]


class DictStoredBytes(_DictStore):
    async def find(self, owner: Owner) -> ByteCount | None:
        self._all.absence.check()
        return self._all.stored_bytes.get(owner)

    async def begin(self, owner: Owner, count: ByteCount) -> None:
        self._all.absence.check()
        self._all.stored_bytes.setdefault(owner, count)

    async def add(self, owner: Owner, more: int, now: float, limit: int | None = None) -> bool:
        there = await self.find(owner)
        if there is None or (limit is not None and there.total + more > limit):
            return False
        self._all.stored_bytes[owner] = ByteCount(there.total + more, now)
        return True

    async def correct(self, owner: Owner, before: ByteCount, count: ByteCount) -> bool:
        if await self.find(owner) != before:
            return False
        self._all.stored_bytes[owner] = count
        return True
