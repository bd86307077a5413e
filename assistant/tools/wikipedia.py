"""The Wikipedia tool of the assistant: finds the article about a topic, in the conversation's language.

Source of the API: https://www.mediawiki.org/wiki/API:Search and https://www.mediawiki.org/wiki/Extension:TextExtracts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from assistant.tools.delimited import clean, delimited
from assistant.tools.folding import folded
from assistant.tools.http_client import HttpClient
from assistant.tools.polish_declension import nominatives
from assistant.tools.sentences import Sentence
from assistant.tools.service_answers import ask
from assistant.tools.tool import InvalidArguments, NotFound, ToolContext, Unavailable
from assistant.tools.topic_questions import topic_arguments

NAME = "Wikipedia"
URL = "https://{language}.wikipedia.org"
LICENCE = "CC BY-SA 4.0"
LANGUAGES = frozenset({
    "ar", "bg", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "he", "hi", "hr", "hu", "id", "it",
    "ja", "ko", "lt", "lv", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sr", "sv", "tr", "uk", "vi", "zh",
})  # fmt: skip
"""Languages whose Wikipedia is asked; other conversations get the English one."""
MAX_TOPIC = 200
MAX_EXTRACT = 4000
"""Characters of an extract in a result."""
MAX_FOR_MODEL = 3000
MAX_PHRASED = 600
"""Characters of an article that are an answer."""
CANDIDATES = 5

_NO_ARTICLE = Sentence("Wikipedia has no article about “{topic}”.", "Wikipedia nie ma artykułu o „{topic}”.")
_AMBIGUOUS = Sentence(
    "“{topic}” has several meanings. Please say which one is meant.",
    "„{topic}” ma kilka znaczeń. Napisz, o które chodzi.",
)
_NO_TOPIC = Sentence(
    "What should be looked up? The question names no topic.", "Czego szukać? Pytanie nie podaje tematu."
)
_REFUSED = Sentence("Wikipedia could not answer this question.", "Wikipedia nie mogła odpowiedzieć na to pytanie.")


class _Page(msgspec.Struct):
    title: str
    index: int = 0
    extract: str = ""
    pageprops: dict[str, Any] = {}

    @property
    def is_article(self) -> bool:
        """Whether the page that Wikipedia returned is an article, not a missing page or a list of meanings."""
        return "disambiguation" not in self.pageprops and bool(self.extract.strip())


class _Pages(msgspec.Struct):
    pages: list[_Page] = []


class _Error(msgspec.Struct):
    code: str


class _Answer(msgspec.Struct):
    query: _Pages = msgspec.field(default_factory=_Pages)
    error: _Error | None = None


class Wikipedia:
    """The Wikipedia tool.

    Args:
        http: the client that reaches Wikipedia.
        url: address of a wiki with `{language}` in it.
    """

    name = "wikipedia"
    description = (
        "Summary of the Wikipedia article about a topic. Call it for facts about people, places, history, science or "
        "works that Wikipedia can confirm. Pass the topic alone, without the words of the question."
    )
    time_limit = 15.0
    cache_seconds = 3600.0

    def __init__(self, http: HttpClient, *, url: str = URL) -> None:
        self._http = http
        self._url = url

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON schema of the Wikipedia tool's arguments: the topic."""
        topic = {"type": "string", "minLength": 1, "maxLength": MAX_TOPIC, "description": "Topic to look up"}
        return {"type": "object", "properties": {"topic": topic}, "required": ["topic"], "additionalProperties": False}

    def from_question(self, question: str, language: str) -> dict[str, Any] | None:
        """Return the tool's arguments for an English or Polish question, a topic; `None` if it names none."""
        return topic_arguments(question)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return Wikipedia's article about the topic of `arguments` as a JSON object of the type `article`.

        A topic without an article in the language of the conversation is looked up in English.

        Raises:
            NotFound: there is no article, or the topic has several meanings.
            ToolError: Wikipedia does not answer.
        """
        topic = arguments.get("topic")
        if not isinstance(topic, str) or not any(map(str.isalnum, topic)):
            raise InvalidArguments(_NO_TOPIC)
        topic = clean(topic)[:MAX_TOPIC].strip()
        spoken = context.language.lower().split("-")[0]
        pages: list[_Page] = []
        for language in dict.fromkeys([spoken if spoken in LANGUAGES else "en", "en"]):
            found = await self._search(topic, language)
            article = _best(found, topic, language)
            if article is not None:
                return self._result(article, language)
            pages += found
        raise NotFound(_AMBIGUOUS if pages else _NO_ARTICLE, topic=topic)

    def phrased(self, result: dict[str, Any]) -> str | None:
        """Return the beginning of the article, up to the end of a sentence, as the text of the answer."""
        return _beginning(clean(result["extract"]))

    def for_model(self, result: dict[str, Any]) -> str:
        """Return an article as a delimited block of data for the answering model."""
        return delimited("Wikipedia article", [f"Title: {result['title']}", result["extract"]], MAX_FOR_MODEL)

    async def _search(self, topic: str, language: str) -> list[_Page]:
        parameters = {
            "action": "query",
            "format": "json",
            "formatversion": "2",
            "generator": "search",
            "gsrsearch": topic,
            "gsrlimit": str(CANDIDATES),
            "gsrnamespace": "0",
            "redirects": "1",
            "prop": "extracts|pageprops",
            "exintro": "1",
            "explaintext": "1",
            "exlimit": "max",
            "ppprop": "disambiguation",
        }
        url = f"{self._url.format(language=language)}/w/api.php"
        answer = await ask(self._http, NAME, url, parameters, _Answer)
        if answer.error is not None:
            raise Unavailable(_REFUSED)
        return sorted(answer.query.pages, key=lambda page: page.index)

    def _result(self, page: _Page, language: str) -> dict[str, Any]:
        title = clean(page.title)
        address = quote(title.replace(" ", "_"), safe="()',:_-.")
        url = f"{self._url.format(language=language)}/wiki/{address}"
        return {
            "type": "article",
            "title": title,
            "extract": _cut(clean(page.extract).strip()),
            "url": url,
            "language": language,
            "source": {"name": NAME, "url": url, "licence": LICENCE},
        }


def _best(pages: Sequence[_Page], topic: str, language: str) -> _Page | None:
    """Return the article whose title is the topic, in any inflected form, or else the most relevant article."""
    articles = [page for page in pages if page.is_article]
    titles = {folded(each) for each in (topic, *(nominatives(topic) if language == "pl" else ()))}
    return next((page for page in articles if folded(page.title) in titles), next(iter(articles), None))


def _cut(text: str) -> str:
    """Return at most `MAX_EXTRACT` characters of a text, cut at the end of a sentence where there is one."""
    if len(text) <= MAX_EXTRACT:
        return text
    end = text.rfind(". ", MAX_EXTRACT // 2, MAX_EXTRACT)
    return f"{text[: end + 1 if end > 0 else MAX_EXTRACT]} …"


def _beginning(extract: str) -> str:
    """Return the beginning of a text, up to the last end of a sentence within `MAX_PHRASED` characters."""
    if len(extract) <= MAX_PHRASED:
        return extract
    end = extract.rfind(". ", 0, MAX_PHRASED)
    return extract[: end + 1] if end > 0 else f"{extract[: MAX_PHRASED - 1]}…"
