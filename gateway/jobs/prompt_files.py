"""Reads the files of a chat completion, and puts their texts in their places: data URLs and files of the project.

Nothing is fetched from other addresses. Text is read as it is; PDF and Office files and EPUB books are parsed in
sandboxed processes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import codecs
import re
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import structlog

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from documents.errors import (
    DamagedFile,
    EncryptedFile,
    FileRefused,
    FileTooLarge,
    ParserUnavailable,
    UnsupportedFormat,
)
from documents.parsing.parser import DocumentParser
from gateway.errors import InvalidRequest, ScopeMissing
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.messages import FileContent, Message, UserPart, user_parts
from runtime.sandbox.limits import WorkLimits
from stored_objects.errors import BlobNotFound
from stored_objects.files.files import ProjectFiles, clean_name
from stored_objects.objects.records import ObjectOwner

MAX_FILES = 16
"""Most files of one request."""
MAX_TOTAL_BYTES = 16 * 2**20
"""Most bytes of the files of one request."""
MAX_TEXT_BYTES = 4 * 2**20
"""Most UTF-8 bytes of the texts of the files of one request."""
PARSER_LIMITS = WorkLimits(
    memory_bytes=2**30,
    cpu_seconds=30.0,
    output_bytes=32 * 2**20,
    message_bytes=32 * 2**20,
    wait_seconds=120.0,
)
"""Limits of parsing one file while its request waits."""
RECOGNITION_SECONDS = 20.0
"""CPU time of recognising the text of one file's scanned pages while its request waits."""
INLINE_BYTES = 64 * 1024
"""More bytes are decoded in a thread, so that they do not block the event loop."""
_DATA_URL = re.compile(r"data:[a-z0-9.+-]{1,64}/[a-z0-9.+-]{1,128}(?:;[a-z0-9-]{1,32}=[^;,]{1,64})*;base64,", re.I)
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f]")
"""The C0 control characters that no text has: all but tab, line feed, form feed and carriage return."""
_PARSED = (b"%PDF-", b"PK\x03\x04")
"""First bytes of the files that are parsed: PDF, and the archives that Office files and EPUB books are."""
_CODES: dict[type[FileRefused], str] = {
    UnsupportedFormat: "unsupported_file",
    EncryptedFile: "encrypted_file",
    DamagedFile: "damaged_file",
    FileTooLarge: "file_too_large",
}
_NOT_READ = "it is no text in UTF-8 or UTF-16, and no PDF, DOCX, PPTX, XLSX or EPUB file"
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

T = TypeVar("T")
Result = TypeVar("Result")

_log = structlog.get_logger(__name__)


class _File(NamedTuple):
    name: str
    content: bytes


class PromptFiles:
    """Reads the files of requests, of which those by id belong to the caller's project."""

    def __init__(self, files: ProjectFiles, parser: DocumentParser) -> None:
        self._files = files
        self._parser = parser

    async def inlined(self, caller: Principal, body: ChatCompletionRequest) -> ChatCompletionRequest:
        """Return a chat completion whose files are replaced by their texts, each with the file's name.

        Raises:
            InvalidRequest: a file is malformed, too large, encrypted, without text, of a format that is not read, or
                not the project's; `param` names its field.
            ScopeMissing: a file is read by its id, and the caller may not read the project's files.
            BlobsUnavailable, StoreUnavailable: a stored file can't be read now.
        """
        files = [
            (f"messages[{index}].content[{place}].file", file)
            for index, message in enumerate(body.messages)
            for place, part in enumerate(user_parts(message))
            if (file := _file_of(part)) is not None
        ]
        if not files:
            return body
        if len(files) > MAX_FILES:
            raise _invalid(files[MAX_FILES][0], f"a request has {MAX_FILES} files at most")
        left, left_text, texts = MAX_TOTAL_BYTES, MAX_TEXT_BYTES, []
        for path, file in files:
            read = await self._read(caller, path, file, left)
            left -= len(read.content)
            text = await self._text_of(caller.tenant, path, read)
            left_text -= len(text.encode())
            if left_text < 0:
                message = f"the texts of a request's files have {MAX_TEXT_BYTES} bytes at most"
                raise _invalid(path, message, "file_too_large")
            texts.append(text)
        rest = iter(texts)
        messages = [_with_texts(message, rest) for message in body.messages]
        return body.model_copy(update={"messages": messages})

    async def _text_of(self, organisation: str, path: str, file: _File) -> str:
        if file.content.startswith(_PARSED):
            text = await self._parsed(organisation, path, file)
        else:
            text = await _in_thread_if_long(len(file.content), _text, path, file.content)
        name = file.name.replace('"', "'")
        return f'<file name="{name}">\n{text}\n</file>'

    async def _parsed(self, organisation: str, path: str, file: _File) -> str:
        """Return the text of a file that is parsed, and after it what was not read, as of scanned pages."""
        with tempfile.TemporaryFile(buffering=0) as opened:
            await asyncio.to_thread(opened.write, file.content)
            try:
                document = await self._parser.parse(opened, file.name, owner=organisation)
            except FileRefused as error:
                raise _invalid(path, _clause(str(error)), _CODES[type(error)]) from error
            except ParserUnavailable as error:
                _log.error("this machine reads no files", reason=str(error))
                raise _invalid(path, "only text files can be read here", "unsupported_file") from error
        if not document.blocks:
            reason = _clause(" ".join(document.warnings))
            raise _invalid(path, f"the file has no text that can be read. {reason}", "file_without_text")
        return "\n\n".join([document.text, *(f"[{warning}]" for warning in document.warnings)])

    async def _read(self, caller: Principal, path: str, file: FileContent, left: int) -> _File:
        if file.file_data is None:
            return await self._stored(caller, path, file, left)
        encoded = file.file_data
        if (start := _DATA_URL.match(encoded[:512])) is not None:
            encoded = encoded[start.end() :]
        content = await _in_thread_if_long(len(encoded), _decoded, path, encoded)
        if len(content) > left:
            raise _too_large(path)
        return _File(clean_name(file.filename or ""), content)

    async def _stored(self, caller: Principal, path: str, file: FileContent, left: int) -> _File:
        owner = files_owner(caller)
        try:
            stored = await self._files.find(owner, file.file_id or "")
            if stored.size > left:
                raise _too_large(path)
            content = b"".join([chunk async for chunk in self._files.objects.stream(stored)])
        except BlobNotFound as error:
            raise _invalid(f"{path}.file_id", "there is no such file") from error
        return _File(clean_name(file.filename) if file.filename else stored.name, content)


def files_owner(caller: Principal) -> ObjectOwner:
    """Return the owner of the project's files, for a caller that may read them.

    Raises:
        ScopeMissing: The caller's key lacks the scope `files`, which the routes of files need too.
    """
    if not caller.may(Scope.FILES):
        raise ScopeMissing(Scope.FILES)
    return ObjectOwner.of_project(caller.tenant, caller.project)


def _file_of(part: UserPart) -> FileContent | None:
    return part.file if part.type == "file" else None


def _with_texts(message: Message, texts: Iterator[str]) -> Message:
    """Return a message with the next ones of `texts` in place of its files."""
    parts = user_parts(message)
    if all(_file_of(part) is None for part in parts):
        return message
    read = [part if _file_of(part) is None else UserPart(type="text", text=next(texts)) for part in parts]
    return message.model_copy(update={"content": read})


def _decoded(path: str, encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _invalid(f"{path}.file_data", "it must be base64, or a data URL with base64") from error


def _text(path: str, content: bytes) -> str:
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise _invalid(path, _NOT_READ, "unsupported_file") from error
    if _CONTROL_CHARACTERS.search(text):
        raise _invalid(path, "it is no text: it has control characters", "unsupported_file")
    return text.removeprefix("\ufeff")


async def _in_thread_if_long(length: int, call: Callable[[str, T], Result], path: str, value: T) -> Result:
    if length > INLINE_BYTES:
        return await asyncio.to_thread(call, path, value)
    return call(path, value)


def _too_large(path: str) -> InvalidRequest:
    return _invalid(path, f"the files of a request have {MAX_TOTAL_BYTES} bytes at most", "file_too_large")


def _clause(sentence: str) -> str:
    """Return a sentence about a file so that it can follow a colon."""
    return (sentence[:1].lower() + sentence[1:]).removesuffix(".")


def _invalid(path: str, reason: str, code: str = "invalid_value") -> InvalidRequest:
    return InvalidRequest(f"Invalid '{path}': {reason}.", param=path, code=code)
