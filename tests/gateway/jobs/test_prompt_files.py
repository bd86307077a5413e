"""Files of chat completions: their texts come into the prompt with their names, everything else is refused."""

from __future__ import annotations

import base64
from contextlib import closing
from dataclasses import replace
from typing import Any, BinaryIO

import pytest

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import PROJECT_SCOPES, Scope
from documents.content import Document
from documents.errors import ParserUnavailable
from documents.parsing.parser import NO_LANGUAGES, DocumentParser
from gateway.errors import InvalidRequest, ScopeMissing
from gateway.jobs import prompt_files
from gateway.jobs.prompt_files import PARSER_LIMITS, PromptFiles
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.messages import to_wire
from runtime.sandbox.limits import WorkLimits
from stored_objects.files.files import ProjectFiles, Purpose, public_id
from stored_objects.objects.records import ObjectOwner
from tests.documents.parsing.files import Text, archive, docx, encrypted_pdf, epub, pdf, scanned_pdf
from tests.documents.parsing.scanned import ENGLISH, page, require_tesseract, scanned
from tests.fakes.stored_objects import stored_objects

CALLER = Principal(key_id="key-1", tenant="tenant-1", cache_salt="salt", project="project-1")
OWNER = ObjectOwner.of_project("tenant-1", "project-1")


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def data_url(content: bytes, media_type: str = "text/plain") -> str:
    return f"data:{media_type};base64,{encoded(content)}"


class Reader:
    """Reads the files of one user's message as the caller."""

    def __init__(self, limits: WorkLimits = PARSER_LIMITS, languages: str = NO_LANGUAGES) -> None:
        self.files = ProjectFiles(stored_objects())
        self.caller = CALLER
        self._limits = limits
        self._languages = languages

    async def __call__(self, *files: dict[str, Any], after: str = "Summarise.") -> str:
        parts = [*({"type": "file", "file": file} for file in files), {"type": "text", "text": after}]
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}]
        body = ChatCompletionRequest.parse({"model": "m", "messages": messages})
        with closing(DocumentParser(self._limits, languages=self._languages)) as parser:
            read = await PromptFiles(self.files, parser).inlined(self.caller, body)
        system, user = map(to_wire, read.messages)
        assert system == {"role": "system", "content": "Be brief."}
        text: str = user["content"]
        return text

    async def refused(self, *files: dict[str, Any], field: str = "", code: str = "invalid_value") -> str:
        with pytest.raises(InvalidRequest) as refused:
            await self(*files)
        assert refused.value.param == f"messages[1].content[{len(files) - 1}].file{field}"
        assert refused.value.code == code
        return str(refused.value)

    async def stored(self, content: bytes, owner: ObjectOwner = OWNER) -> str:
        """Store a file of the project and return its id."""

        async def chunks() -> Any:
            yield content

        async with self.files.pending(owner, len(content)) as reserved:
            written = await self.files.objects.write(reserved, chunks())
            await self.files.finish(written, reserved, name="notes.md", purpose=Purpose.USER_DATA, lifetime=None)
        return public_id("file-", reserved.id)


@pytest.mark.parametrize(
    "content",
    ["Łódź\n".encode(), b"\xef\xbb\xbf" + "Łódź\n".encode(), b"\xff\xfe" + "Łódź\n".encode("utf-16-le")],
)
async def test_the_text_of_a_file_comes_into_the_prompt_with_its_name(content: bytes) -> None:
    read, expected = Reader(), '<file name="a b.txt">\nŁódź\n\n</file>\nSummarise.'
    assert await read({"file_data": data_url(content), "filename": "../a b.txt"}) == expected
    assert await read({"file_data": encoded(content), "filename": "a b.txt"}) == expected
    typed = data_url(content, "text/x-any;charset=utf-8")
    assert await read({"file_data": typed, "filename": 'a "b".txt'}) == expected.replace("a b", "a 'b'")


async def test_files_of_the_project_are_read_by_their_ids_in_order() -> None:
    read = Reader()
    id = await read.stored(b"x = 1")
    text = await read({"file_id": id}, {"file_data": encoded(b"y"), "filename": "y"}, {"file_id": id, "filename": "z"})
    names = [("notes.md", "x = 1"), ("y", "y"), ("z", "x = 1")]
    assert text == "\n".join([*(f'<file name="{name}">\n{of}\n</file>' for name, of in names), "Summarise."])


async def test_a_tools_output_has_files() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
    part = {"type": "file", "file": {"file_data": encoded(b"4"), "filename": "a.txt"}}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "See"}, part]},
    ]
    with closing(DocumentParser(PARSER_LIMITS)) as parser:
        body = ChatCompletionRequest.parse({"model": "m", "messages": messages})
        read = await PromptFiles(ProjectFiles(stored_objects()), parser).inlined(CALLER, body)
    assert to_wire(read.messages[2])["content"] == 'See\n<file name="a.txt">\n4\n</file>'


@pytest.mark.parametrize("owner", [ObjectOwner.of_project("tenant-2", "project-1"), ObjectOwner("tenant-1", "key-1")])
async def test_files_of_other_projects_are_not_found(owner: ObjectOwner) -> None:
    read = Reader()
    for id in (await read.stored(b"secret", owner), "file-", "file-../x", "blob_1"):
        assert "there is no such file" in await read.refused({"file_id": id}, field=".file_id")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n\xff", "no text"),
        (b"a\0b", "control characters"),
        (b"\x01" * 100_000, "control characters"),
        (b"\xff\xfe" + "a\x1bb".encode("utf-16-le"), "control characters"),
    ],
)
async def test_files_that_are_no_text_are_refused(content: bytes, reason: str) -> None:
    assert reason in await Reader().refused({"file_data": encoded(content)}, code="unsupported_file")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.pdf", pdf([Text("Umowa", 72, 700, 20), Text("Czynsz: 100 zł.", 72, 600)]), "Umowa\n\nCzynsz: 100 zł."),
        ("a.docx", docx("<w:p><w:r><w:t>żaba</w:t></w:r></w:p>"), "żaba"),
        ("a.epub", epub({"a.xhtml": "<html><p>żaba</p></html>"}), "żaba"),
    ],
)
async def test_documents_are_parsed(name: str, content: bytes, text: str) -> None:
    read = Reader()
    expected = f'<file name="{name}">\n{text}\n</file>\nSummarise.'
    assert await read({"file_data": data_url(content, "application/pdf"), "filename": name}) == expected
    assert await read({"file_id": await read.stored(content), "filename": name}) == expected


async def test_the_model_reads_which_pages_were_left_out() -> None:
    warned = "[Scanned without text, and not read: page 2 of 2.]"
    assert f"frog\n\n{warned}\n</file>" in await Reader()({"file_data": encoded(scanned_pdf(7, 3))})


async def test_the_text_of_scanned_pages_is_recognised() -> None:
    require_tesseract()
    content = scanned(page(*ENGLISH, height=500))
    assert f"\n{' '.join(ENGLISH)}\n</file>" in await Reader(languages="")({"file_data": encoded(content)})


@pytest.mark.parametrize(
    ("content", "code", "reason"),
    [
        (encrypted_pdf(), "encrypted_file", "the file is encrypted: save it without a password."),
        (scanned_pdf(3, 3), "file_without_text", "scanned without text, and not read: pages 1-2 of 2."),
        (scanned_pdf(6), "file_without_text", "the file has no text that can be read."),
        (b"%PDF-1.7\n...", "damaged_file", "it is no complete PDF file."),
        (archive({"a.txt": "x"}), "unsupported_file", "a compressed archive"),
    ],
)
async def test_documents_without_text_for_the_prompt_are_refused(content: bytes, code: str, reason: str) -> None:
    read = Reader()
    assert reason in await read.refused({"file_data": encoded(b"x")}, {"file_data": encoded(content)}, code=code)


async def test_a_document_takes_limited_time() -> None:
    read = Reader(replace(PARSER_LIMITS, cpu_seconds=0.0001))
    refused = await read.refused({"file_data": encoded(pdf([Text("żaba", 72, 700)] * 3000))}, code="file_too_large")
    assert "than it may" in refused


async def test_a_machine_that_can_not_confine_a_parser_reads_text_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unavailable(*_: Any, **__: Any) -> Any:
        raise ParserUnavailable

    monkeypatch.setattr(DocumentParser, "parse", unavailable)
    refused = await Reader().refused({"file_data": encoded(pdf([]))}, code="unsupported_file")
    assert "only text files can be read here" in refused


async def test_white_space_is_text() -> None:
    assert "a\t\r\n\x0cb" in await Reader()({"file_data": encoded(b"a\t\r\n\x0cb")})


async def test_files_of_the_project_need_the_scope_of_files() -> None:
    read = Reader()
    id = await read.stored(b"x")
    read.caller = replace(CALLER, scopes=PROJECT_SCOPES - {Scope.FILES})
    with pytest.raises(ScopeMissing) as refused:
        await read({"file_id": id})
    assert str(refused.value) == "You have insufficient permissions for this operation. Missing scopes: files."
    assert "inline" in await read({"file_data": encoded(b"inline")})


async def test_content_that_is_no_base64_is_refused() -> None:
    for malformed in ("data:text/plain,hello", "https://example.org/a.txt", "a", data_url(b"a") + "!"):
        assert "base64" in await Reader().refused({"file_data": malformed}, field=".file_data")


async def test_number_and_bytes_of_all_files_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Reader()
    monkeypatch.setattr(prompt_files, "MAX_FILES", 2)
    monkeypatch.setattr(prompt_files, "MAX_TOTAL_BYTES", 10)
    half = {"file_data": encoded(b"12345")}
    assert (await read(half, half)).count("12345") == 2
    assert "2 files at most" in await read.refused(half, half, half)
    for second in ({"file_data": encoded(b"123456")}, {"file_id": await read.stored(b"123456")}):
        assert "10 bytes at most" in await read.refused(half, second, code="file_too_large")


async def test_bytes_of_all_texts_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Reader()
    monkeypatch.setattr(prompt_files, "MAX_TEXT_BYTES", 80)
    short = {"file_data": encoded(pdf([Text("żaba", 72, 700)])), "filename": "a.pdf"}
    assert "żaba" in await read(short, short)
    assert "80 bytes at most" in await read.refused(short, short, short, code="file_too_large")


async def test_a_large_file_is_read_like_a_small_one() -> None:
    content = b"line\n" * (prompt_files.INLINE_BYTES // 4)
    assert content.decode() in await Reader()({"file_data": encoded(content)})


async def test_files_that_are_parsed_take_turns_by_organisation() -> None:
    owners: list[str] = []

    class Parser(DocumentParser):
        async def parse(self, file: BinaryIO, filename: str, *, owner: str = "") -> Document:
            owners.append(owner)
            return await super().parse(file, filename, owner=owner)

    part = {"type": "file", "file": {"file_data": data_url(pdf([Text("Dogs", 72, 700)]))}}
    body = ChatCompletionRequest.parse({"model": "m", "messages": [{"role": "user", "content": [part]}]})
    with closing(Parser(PARSER_LIMITS)) as parser:
        await PromptFiles(ProjectFiles(stored_objects()), parser).inlined(CALLER, body)
    assert owners == [CALLER.tenant]
