"""The founding demo in Chromium, in English and in Polish: each tool, a plain question and a follow-up in one chat.

`headrace up` with the real model, an image worker with a tiny random pipeline, and stubs of Open-Meteo and MediaWiki.
If `HEADRACE_SCREENSHOTS` names a folder, a screenshot of each step is written there.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from auth_billing.prices.price_file import DEFAULT_FILE
from infra.home.credentials import password_file
from infra.home.home import Home
from infra.launcher.readiness import free_port
from infra.rabbitmq.node import BrokerNotInstalled, find_program
from tests.chat_ui.chromium import Visit, chromium
from tests.e2e.launcher_process import Launched
from tests.fakes.media_wiki_server import MediaWikiServer
from tests.fakes.open_meteo_server import OpenMeteoServer
from tests.fakes.recording_service import PERMITTED

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.model,
    pytest.mark.store,
    pytest.mark.rabbitmq,
    pytest.mark.asyncio(loop_scope="module"),
]

TIMEOUT = 60_000
"""Timeout in milliseconds; long, because the machine may be busy."""
PICTURES = os.environ.get("HEADRACE_SCREENSHOTS")
SIDE = 64
SIZE = f"{SIDE}x{SIDE}"


@dataclass(frozen=True)
class Wording:
    """The demo's questions in one language, and what the page says of their steps."""

    locale: str
    message: str
    picture: str
    picture_card: str
    weather: str
    weather_card: str
    place: str
    article: str
    article_card: str
    extract: str
    integral: str
    integral_card: str
    plot: str
    plain: str
    discussed: str
    there: str
    understood: str


ENGLISH = Wording(
    locale="en-GB",
    message="Write a message",
    picture="Draw a red cat",
    picture_card="Images",
    weather="What is the weather in Gdańsk?",
    weather_card="Weather",
    place="Gdańsk",
    article="Who was Albert Einstein?",
    article_card="Wikipedia",
    extract="German-born theoretical physicist",
    integral="Integrate x^2*sin(x) and plot the result",
    integral_card="Mathematics",
    plot="Plot of",
    plain="Good morning! How are you?",
    discussed="What is the weather in the city we discussed?",
    there="And what will the weather be like there tomorrow?",
    understood="Understood as:",
)
POLISH = Wording(
    locale="pl-PL",
    message="Napisz wiadomość",
    picture="Narysuj czerwonego kota",
    picture_card="Obrazy",
    weather="Jaka jest pogoda w Gdańsku?",
    weather_card="Pogoda",
    place="Gdańsk",
    article="Kim był Mikołaj Kopernik?",
    article_card="Wikipedia",
    extract="polski astronom",
    integral="Scałkuj x^2*sin(x) i narysuj wykres wyniku",
    integral_card="Matematyka",
    plot="Wykres",
    plain="Dzień dobry! Jak się masz?",
    discussed="Jaka jest pogoda w mieście, o którym rozmawialiśmy?",
    there="A jaka będzie tam jutro pogoda?",
    understood="Zrozumiano jako:",
)


@dataclass
class Demo:
    """A running platform with every tool, and its stubs."""

    launched: Launched
    weather: OpenMeteoServer
    wiki: MediaWikiServer
    visit: Visit


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def demo(e2e_home: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Demo]:
    """The platform with the owner signed in."""
    pytest.importorskip("diffusers")
    from tests.fakes.tiny_pipeline import save_flux_pipeline

    try:
        find_program("rabbitmq-server")
    except BrokerNotInstalled as error:
        pytest.fail(str(error)) if os.environ.get("CI") else pytest.skip(str(error))
    folder, port = tmp_path_factory.mktemp("demo"), free_port()
    async with AsyncExitStack() as stack:
        browser = await stack.enter_async_context(chromium())
        weather, wiki = OpenMeteoServer(), MediaWikiServer()
        for service in (weather, wiki):
            await stack.enter_async_context(service.running())
        catalogue, prices = folder / "assistant.toml", folder / "prices.toml"
        catalogue.write_text(
            f"""[models.assistant]
tools = ["math", "weather", "wikipedia", "image"]
[tools]
wikipedia = true
wikipedia_url = "{wiki.template}"
permitted_networks = ["{PERMITTED}"]
[tools.weather]
url = "{weather.url}"
"""
        )
        prices.write_text(f'{DEFAULT_FILE.read_text()}\n[models.painter]\nunits = {{ "{SIZE}" = "0.003" }}\n')
        pipeline = await asyncio.to_thread(save_flux_pipeline, folder)
        launched = Launched(
            ["up", "--workers", "1"],
            e2e_home,
            port,
            HEADRACE_RABBITMQ_PORT=str(amqp_port := free_port()),
            HEADRACE_RABBITMQ_CONSOLE_PORT=str(free_port()),
            HEADRACE_KV_CACHE_MEMORY="512MiB",
            HEADRACE_ASSISTANT_CONFIG=str(catalogue),
            HEADRACE_PRICE_FILE=str(prices),
            HEADRACE_DEFAULT_MAX_TOKENS="48",
        )
        stack.callback(launched.end)
        await asyncio.to_thread(launched.until_ready)
        painter = start_painter(launched, pipeline, amqp_port)
        stack.callback(painter.wait)
        stack.callback(painter.kill)
        visit = await Visit.to(f"http://127.0.0.1:{port}", browser, TIMEOUT)
        await visit.page.goto(re.findall(r"http://\S+#start=\S+", launched.output)[0])
        await expect(visit.page.get_by_role("button", name="Model: assistant")).to_be_visible()
        async with asyncio.timeout(120):
            while not {each.id for each in launched.client().models.list()} >= {"painter", "assistant"}:
                await asyncio.sleep(0.5)
        yield Demo(launched, weather, wiki, visit)


def start_painter(launched: Launched, pipeline: Path, amqp_port: int) -> subprocess.Popen[bytes]:
    """Start a worker that serves the image model, and return its process."""
    home = Home(launched.home)
    password = password_file(home, "worker").read_text().strip()
    return subprocess.Popen(
        [sys.executable, "-m", "infra.cli", "worker", "--model", str(pipeline), "--id", "painter-1"],
        env={
            **launched.environment,
            "HEADRACE_AMQP_URL": f"amqp://worker:{password}@127.0.0.1:{amqp_port}/headrace",
            "HEADRACE_CONTROL_SECRET": (home.secrets / "control-secret").read_text().strip(),
            "HEADRACE_SERVED_MODEL_NAME": "painter",
            "HEADRACE_IMAGE_SIZES": SIZE,
            "HEADRACE_IMAGE_STEPS": "4",
            "HEADRACE_DTYPE": "float32",
            "HEADRACE_THREADS": "1",
            "HEADRACE_OPS_PORT": str(free_port()),
        },
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


async def ask(page: Page, words: Wording, question: str) -> Locator:
    """Ask a question, wait until its answer has ended, and return the answer."""
    answers = page.locator("article.answer")
    before = await answers.count()
    await page.get_by_label(words.message).fill(question)
    await page.keyboard.press("Enter")
    await expect(answers).to_have_count(before + 1)
    await expect(answers.last).to_have_attribute("aria-busy", "false")
    return answers.last


async def screenshot(page: Page, words: Wording, name: str) -> None:
    """Take a picture of a step in the light and the dark theme, if pictures are wanted."""
    if PICTURES is None:
        return
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme=theme)
        await page.wait_for_timeout(400)
        await page.screenshot(path=Path(PICTURES) / f"demo-{words.locale[:2]}-{name}-{theme}.png")
    await page.emulate_media(color_scheme="light")


def card(answer: Locator, name: str) -> Locator:
    return answer.get_by_role("region", name=re.compile(f"^{name}"))


@pytest.mark.parametrize("words", [ENGLISH, POLISH], ids=["English", "Polish"])
async def test_one_chat_draws_forecasts_looks_up_calculates_and_answers(
    demo: Demo, visit: Visit, words: Wording
) -> None:
    page = visit.page
    await screenshot(page, words, "new")

    answer = await ask(page, words, words.picture)
    image = card(answer, words.picture_card).get_by_role("img")
    await expect(image).to_be_visible()
    assert await image.evaluate("image => image.decode().then(() => image.naturalWidth)") == SIDE
    await screenshot(page, words, "picture")

    answer = await ask(page, words, words.weather)
    weather = card(answer, words.weather_card)
    await expect(weather.get_by_role("heading", level=2)).to_contain_text(words.place)
    await expect(weather).to_contain_text("5 °C")
    await expect(weather.get_by_role("slider")).to_be_visible()
    searched = [each.query["name"] for each in demo.weather.asked if each.path == "/v1/search"]
    assert words.place in searched
    await screenshot(page, words, "weather")

    answer = await ask(page, words, words.article)
    await expect(card(answer, words.article_card)).to_contain_text(words.extract)
    assert demo.wiki.languages[-1] == words.locale[:2]
    await screenshot(page, words, "article")

    answer = await ask(page, words, words.integral)
    integral = card(answer, words.integral_card)
    await expect(integral.locator("math").first).to_be_visible()
    await expect(answer.locator(".markdown")).to_have_text("-x^2*cos(x) + 2*x*sin(x) + 2*cos(x) + C")
    await expect(integral.get_by_role("slider", name=re.compile(f"^{words.plot}"))).to_be_visible()
    await screenshot(page, words, "integral")

    answer = await ask(page, words, words.plain)
    await expect(answer.locator(".markdown")).not_to_be_empty()
    await expect(answer.get_by_role("region")).to_have_count(0)
    await screenshot(page, words, "plain")

    for question in (words.discussed, words.there):
        answer = await ask(page, words, question)
        await expect(answer).to_contain_text(words.understood)
        weather = card(answer, words.weather_card)
        await expect(weather.get_by_role("heading", level=2)).to_contain_text(words.place)
        await expect(weather.get_by_role("slider")).to_be_visible()
    await screenshot(page, words, "follow-up")
    await visit.expect_clean()


@pytest_asyncio.fixture(loop_scope="module")
async def visit(demo: Demo, words: Wording) -> AsyncIterator[Visit]:
    """A page of the owner in the language of the demo."""
    browser = demo.visit.context.browser
    assert browser is not None
    visit = await Visit.to(demo.visit.origin, browser, TIMEOUT, locale=words.locale)
    await visit.context.add_cookies(await demo.visit.context.cookies())  # type: ignore[arg-type]  # as they were given
    await visit.page.goto(f"{visit.origin}/")
    await expect(visit.page.get_by_role("button", name="Model: assistant")).to_be_visible()
    yield visit
    await visit.context.close()
