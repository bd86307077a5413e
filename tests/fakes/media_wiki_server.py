"""Stub of MediaWiki's Action API: `action=query` with `generator=search` and the properties that the tool asks for.

Written from https://www.mediawiki.org/wiki/API:Query, https://www.mediawiki.org/wiki/API:Search,
https://www.mediawiki.org/wiki/Extension:TextExtracts (the modules' generated help; `exintro` as a flag, at most 20
extracts) and https://www.mediawiki.org/wiki/API:Errors_and_warnings; that `pages` is a list with `index` in
`formatversion=2`, and that `query` is missing without a match, are from memory of the live API.
The first part of the path is the wiki's language, instead of a subdomain.
"""

from __future__ import annotations

from typing import Any

from tests.fakes.places import folded
from tests.fakes.recording_service import Answer, Asked, Endpoint, RecordingService

EINSTEIN = "Albert Einstein (14 March 1879 – 18 April 1955) was a German-born theoretical physicist."
ARTICLES = {
    "en": {
        "Albert Einstein": EINSTEIN,
        "Einstein family": "The Einstein family is the family of physicist Albert Einstein.",
        "Python (programming language)": "Python is a high-level programming language.",
        "Mercury": None,
        "Mercury (planet)": "Mercury is the first planet from the Sun.",
        "Tardigrade": "Tardigrades, known as water bears, are eight-legged micro-animals.",
        "Ambiguity": None,
        "AC/DC": "AC/DC are an Australian rock band.",
    },
    "pl": {
        "Mikołaj Kopernik": "Mikołaj Kopernik – polski astronom, autor dzieła De revolutionibus.",
        "Krakowiak": "Krakowiak – polski taniec ludowy z okolic Krakowa.",
        "Kraków": "Kraków – miasto na prawach powiatu, położone w południowej Polsce nad Wisłą.",
        "Zamek (ujednoznacznienie)": None,
    },
}
"""Introductions by title; `None`: a disambiguation page."""
STEM = 5
"""Characters by which the stub's search compares words, as its stemmers let inflected forms match."""


class MediaWikiServer(RecordingService):
    """The wikis of `ARTICLES` on one server; `template` is their address with `{language}` in it."""

    def __init__(self) -> None:
        super().__init__(**{f"/{language}/w/api.php": _wiki(language) for language in (*ARTICLES, "de")})

    @property
    def template(self) -> str:
        return f"{self.url}/{{language}}"

    @property
    def languages(self) -> list[str]:
        """Languages of the wikis that were asked, in order."""
        return [_language(each) for each in self.asked]


def _language(asked: Asked) -> str:
    return asked.path.split("/")[1]


def _wiki(language: str) -> Endpoint:
    return lambda query: _query(ARTICLES.get(language, {}), query)


def _query(articles: dict[str, str | None], query: dict[str, str]) -> Answer:
    if query.get("action") != "query":
        return 200, {"error": {"code": "badvalue", "info": 'Unrecognized value for parameter "action".'}}
    if len(query["gsrsearch"]) > 300:
        return 200, {"error": {"code": "cirrussearch-query-too-long", "info": "Search request is too long."}}
    stems = [folded(word)[:STEM] for word in query["gsrsearch"].split()]
    found = [title for title in articles if any(stem in folded(title) for stem in stems if len(stem) > 2)]
    pages: list[dict[str, Any]] = []
    for index, title in enumerate(found[: int(query["gsrlimit"])], start=1):
        page: dict[str, Any] = {"pageid": 1000 + index, "ns": 0, "title": title, "index": index}
        text = articles[title]
        page["extract"] = text if text is not None else f"{title} may refer to:"
        if text is None:
            page["pageprops"] = {"disambiguation": ""}
        pages.append(page)
    pages.reverse()  # The list is in the order of page ids; `index` has the order of relevance.
    return 200, {"batchcomplete": True} | ({"query": {"pages": pages}} if pages else {})
