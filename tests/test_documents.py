"""Documents, and citations of documents in code, name only what exists: files, sections, links, make targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.assistant.hostile_index import INDEX as ASSISTANT_TESTS
from tests.chat_ui.hostile_index import INDEX as CHAT_TESTS
from tests.documents.hostile_index import INDEX as DOCUMENT_TESTS
from tests.gateway.hostile_index import INDEX as GATEWAY_TESTS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = tuple(f"{each.name}/" for each in ROOT.iterdir() if each.is_dir() and not each.name.startswith("."))
FOREIGN = re.compile(r"\b(?:PROMISES|MONEY|HOSTILE|DESIGN|OPENAI|PERFORMANCE)(?:\.md\b| [0-9FHIS]\d*)")
"""Names of documents that are not in the repository."""
OF_OTHER_PROJECTS = {
    "docs/gguf.md",
    "docs/design/metrics.md",
    "convert_hf_to_gguf.py",
    "llama-vocab.cpp",
    "transformers/utils/chat_template_utils.py",
}
"""Files of ggml, llama.cpp, vLLM and transformers that sources cite."""


def sources() -> list[Path]:
    """Return every text file that can cite a document."""
    kinds = {".py", ".md", ".ts", ".svelte", ".toml", ".h", ".cpp", ".yml", ".conf"}
    built = {"node_modules", "dist", "build", "__pycache__"}
    found = [each for folder in FOLDERS for each in (ROOT / folder).rglob("*")] + list(ROOT.glob("*.*"))
    return [
        each
        for each in found
        if each.suffix in kinds and each.is_file() and not built.intersection(each.relative_to(ROOT).parts)
    ]


def named_paths(text: str) -> list[str]:
    """Return the paths of this repository between backticks, without those that have a placeholder."""
    quoted = re.findall(r"`([\w./-]+)`", text)
    return [each for each in quoted if each.startswith(FOLDERS)]


def anchors(document: Path) -> set[str]:
    """Return the section ids of a document: explicit ones, and those that GitHub derives from headings."""
    text = document.read_text()
    headings = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    derived = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
    return derived | set(re.findall(r'<a id="([^"]+)"', text))


def cited_ids(rest: str) -> list[str]:
    """Return the ids that follow `docs/NAME.md#`: `F7, F8 to F10` is three."""
    match = re.match(r"[\w-]+(?:(?:,| and| to)\s+[A-Z]\d+\b)*", rest)
    return re.findall(r"[\w-]+", re.sub(r",| and | to ", " ", match[0])) if match else []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_named_exist(document: Path) -> None:
    missing = [each for each in named_paths(document.read_text()) if not (ROOT / each).exists()]
    assert not missing


def test_source_files_and_methods_that_are_named_in_short_exist() -> None:
    """`sampling/sampler.py` is the end of a path, `Engine.step` a name that the sources have."""
    kinds = (".py", ".h", ".cpp", ".ts", ".svelte")
    texts = {each: each.read_text(errors="replace") for each in sources() if each.suffix in (*kinds, ".md")}
    paths = [f"/{each.relative_to(ROOT)}" for each in texts]
    words = {word for each, text in texts.items() if each.suffix in kinds for word in re.findall(r"\w+", text)}
    missing = []
    for source, text in texts.items():
        named = {each for each in re.findall(r"`([\w/-]+\.\w+)`", text) if each.endswith(kinds)}
        missing += [
            f"{source.relative_to(ROOT)}: {each}"
            for each in named - OF_OTHER_PROJECTS
            if source != Path(__file__) and not any(path.endswith(f"/{each}") for path in paths)
        ]
        if source in DOCUMENTS:
            methods = re.findall(r"`([A-Z]\w*[a-z]\w*)\.(\w+)`", text)
            missing += [f"{source.relative_to(ROOT)}: {a}.{b}" for a, b in methods if not {a, b} <= words]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(document: Path) -> None:
    missing = []
    for target, section in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", document.read_text()):
        path = document.parent / target if target else document
        if not path.exists() or (section and path.suffix == ".md" and section not in anchors(path)):
            missing.append(f"{target}#{section}")
    assert not missing


def test_documents_and_sections_that_are_cited_exist() -> None:
    """Code, tests and documents cite `docs/NAME.md#SECTION` and `ADR NNNN`."""
    decisions = {each.name[:4] for each in (ROOT / "docs" / "adr").glob("[0-9]*.md")}
    missing = []
    for source in sources():
        if source == Path(__file__):
            continue
        text = source.read_text(errors="replace")
        name = source.relative_to(ROOT)
        for path, rest in re.findall(r"(?<![\w/.-])(docs/[\w/-]+\.md)(?:#([^\n)]*))?", text):
            if path in OF_OTHER_PROJECTS:
                continue
            if not (ROOT / path).exists():
                missing.append(f"{name}: {path}")
            elif unknown := set(cited_ids(rest)) - anchors(ROOT / path):
                missing.append(f"{name}: {path}#{unknown}")
        missing += [f"{name}: ADR {each}" for each in re.findall(r"\bADR (\d{4})\b", text) if each not in decisions]
        missing += [f"{name}: adr/{each}" for each in re.findall(r"\badr/(\d{4})\b", text) if each not in decisions]
        missing += [f"{name}: {each}" for each in FOREIGN.findall(text)]
    assert not missing


def test_classes_of_hostile_input_are_those_of_the_indexes_of_tests() -> None:
    """The document names the tests of the other rows."""
    rows = {each for each in anchors(ROOT / "docs/design/hostile-input.md") if re.fullmatch(r"H\d+", each)}
    named = GATEWAY_TESTS.keys() | CHAT_TESTS.keys() | ASSISTANT_TESTS.keys() | DOCUMENT_TESTS.keys()
    assert rows - {"H86", "H97", "H98", "H99", "H102", "H106"} == named


def test_the_architecture_names_many_files() -> None:
    """The check above would pass on an empty list."""
    assert len(named_paths((ROOT / "ARCHITECTURE.md").read_text())) > 20


def test_functions_that_the_architecture_names_exist() -> None:
    """`path.py` (`Class.method`, `function`): each is defined in that file."""
    named = re.findall(r"`([\w/]+\.py)` \(((?:`[\w.]+`(?:, )?)+)\)", (ROOT / "ARCHITECTURE.md").read_text())
    missing = []
    for path, names in named:
        text = (ROOT / path).read_text()
        for name in re.findall(r"`([\w.]+)`", names):
            parts = name.split(".")
            if not all(re.search(rf"^\s*(?:class|def|async def) {part}\b", text, re.MULTILINE) for part in parts):
                missing.append(f"{path}: {name}")
    assert len(named) > 20
    assert not missing


def test_make_targets_in_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md"):
        path = ROOT / name
        verbs = set(re.findall(r"\bmake ([a-z-]+)", path.read_text())) if path.exists() else targets
        assert verbs
        assert verbs <= targets
