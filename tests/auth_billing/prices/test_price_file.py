"""The price file: exact prices by model and service class, and one-line errors for an invalid file."""

from __future__ import annotations

from pathlib import Path

import pytest

from auth_billing.errors import NoPrice
from auth_billing.prices import price_file
from auth_billing.prices.pricing import MAX_TOKEN_PRICE, Price, PriceList, TokenRate
from router.messages import ServiceClass, Usage
from runtime.lifecycle import StartupError

GOOD = """
[default]
input = "0.02"
output = "0.06"
tiers = { priority = "2", flex = "0.5" }

[models."org/m:4.1"]
input = "0.15"
cached_input = "0.075"
output = "0.6"
tiers.flex = { input = "0.08", output = "0.3" }

[models.embedder]
embedding = "0.004"
"""


def read(tmp_path: Path, text: str) -> PriceList:
    path = tmp_path / "prices.toml"
    path.write_text(text, encoding="utf-8")
    return price_file.parse(price_file.source(path)).price_list(7)


def test_a_million_tokens_cost_what_the_file_says(tmp_path: Path) -> None:
    price = read(tmp_path, GOOD).price("org/m:4.1", ServiceClass.DEFAULT)
    assert price.cost(Usage(prompt_tokens=1_000_000)) == 150_000_000


@pytest.mark.parametrize(
    ("model", "service_class", "rate"),
    [
        ("org/m:4.1", ServiceClass.DEFAULT, TokenRate(150, 75, 600)),
        ("org/m:4.1", ServiceClass.FLEX, TokenRate(80, 80, 300)),
        ("org/m:4.1", ServiceClass.PRIORITY, TokenRate(150, 75, 600)),
        ("embedder", ServiceClass.FLEX, TokenRate(4, 4, 0)),
        ("any other", ServiceClass.DEFAULT, TokenRate(20, 20, 60)),
        ("any other", ServiceClass.PRIORITY, TokenRate(40, 40, 120)),
        ("any other", ServiceClass.FLEX, TokenRate(10, 10, 30)),
    ],
)
def test_prices_of_a_file_by_model_and_service_class(
    tmp_path: Path, model: str, service_class: ServiceClass, rate: TokenRate
) -> None:
    price = read(tmp_path, GOOD).price(model, service_class)
    assert price == Price(rate.input, rate.cached_input, rate.output, version=7)


def test_without_a_default_other_models_have_no_price(tmp_path: Path) -> None:
    prices = read(tmp_path, '[models.m]\ninput = "1"\noutput = "1"')
    with pytest.raises(NoPrice, match="'x' has no price"):
        prices.price("x", ServiceClass.DEFAULT)


def test_the_lowest_and_highest_prices_are_valid(tmp_path: Path) -> None:
    prices = read(tmp_path, '[default]\ninput = "0"\noutput = "1000000"')
    assert prices.price("m", ServiceClass.DEFAULT) == Price(0, 0, MAX_TOKEN_PRICE, version=7)


def test_the_shipped_file_has_a_price_for_every_model() -> None:
    prices = price_file.parse(price_file.source(price_file.DEFAULT_FILE)).price_list(1)
    for service_class in ServiceClass:
        assert prices.price("anything", service_class).input > 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"0.15"', '"-0.15"', "models.org/m:4.1.input: '-0.15' is not a number"),
        ('"0.15"', '"1e3"', "not a number"),
        ('"0.15"', '"NaN"', "not a number"),
        ('"0.15"', '"Infinity"', "not a number"),
        ('"0.15"', '"१२"', "not a number"),
        ('"0.15"', '""', "not a number"),
        ('"0.15"', '" 1"', "not a number"),
        ('"0.15"', '"1_0"', "not a number"),
        ('"0.15"', "0.15", "must be a string"),
        ('"0.15"', "1", "must be a string"),
        ('"0.15"', "true", "must be a string"),
        ('"0.15"', '"0.0001"', "`input` is 0.0001 USD per million tokens: that is no whole number of nano-USD"),
        ('"0.15"', '"1000000.1"', "more than a USD per token"),
        ('"0.15"', '"0.05"', "`cached_input` is more than `input`"),
        ('"0.5"', '"0.333"', "tier `flex`: `input` is 0.00666 USD"),
        ('"0.5"', '"-2"', "default.tiers.flex"),
        ("flex = {", "batch = {", "models.org/m:4.1.tiers.batch"),
        ("priority =", "default =", "the tier `default` is what stands outside"),
        ('"0.08", output', '"0.08", outptu', "tiers.flex"),
        ('embedding = "0.004"', 'embedding = "0.004"\ninput = "1"', "models.embedder: `embedding` stands alone"),
        ('embedding = "0.004"', 'input = "1"', "models.embedder: must have `input` and `output`"),
        ('embedding = "0.004"', "", "models.embedder: must have `input` and `output`"),
        ("cached_input", "cached", "models.org/m:4.1.cached: Extra inputs"),
        ("org/m:4.1", "m*", "only letters"),
        ("[default]", "[defaults]", "defaults: Extra inputs"),
        ("[default]", "[default", "not TOML"),
        (GOOD, "", "no price in it"),
    ],
)
def test_an_invalid_file_is_a_one_line_error(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(StartupError) as error:
        read(tmp_path, GOOD.replace(old, new))
    assert said in str(error.value)
    assert "\n" not in str(error.value) or "not TOML" in said


def test_a_missing_file_is_a_startup_error(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="No such file"):
        price_file.source(tmp_path / "none.toml")


def test_units_cost_what_the_file_says(tmp_path: Path) -> None:
    prices = read(
        tmp_path,
        """
[models.painter]
units = { "512x512" = "0.004", "1024x1024" = "0.04" }
tiers = { priority = "2", flex = { units = { "512x512" = "0.001" } } }
[models."tool.weather"]
units = { call = "0.000000001" }
[models.both]
input = "0.15"
output = "0.6"
units = { call = "1000" }
""",
    )
    usual = {"512x512": 4_000_000, "1024x1024": 40_000_000}
    assert prices.models["painter"][ServiceClass.DEFAULT] == TokenRate(0, 0, 0, units=usual)
    doubled = {unit: 2 * price for unit, price in usual.items()}
    assert prices.models["painter"][ServiceClass.PRIORITY] == TokenRate(0, 0, 0, units=doubled)
    assert prices.models["painter"][ServiceClass.FLEX] == TokenRate(0, 0, 0, units={"512x512": 1_000_000})
    assert prices.models["tool.weather"][ServiceClass.DEFAULT].units == {"call": 1}
    assert prices.models["both"][ServiceClass.FLEX] == TokenRate(150, 150, 600, units={"call": 10**12})


@pytest.mark.parametrize(
    ("units", "reason"),
    [
        ('{ call = "0.0000000001" }', "no whole number of nano-USD"),
        ('{ call = "1000.1" }', "more than 1000 USD"),
        ('{ "a.b" = "1" }', "only letters, digits"),
        ("{ call = 1 }", "must be a string"),
        ("{}", "must have `input` and `output`, `embedding`, or only `units`"),
    ],
)
def test_invalid_prices_of_units_are_reported(tmp_path: Path, units: str, reason: str) -> None:
    with pytest.raises(StartupError, match=reason):
        read(tmp_path, f"[models.painter]\nunits = {units}\n")
