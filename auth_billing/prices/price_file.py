"""Reads and parses the operator's TOML price file and the prices in a proxy's catalogue (USD per million tokens).

    [default]                       # models without an entry of their own
    input = "0.02"
    cached_input = "0.01"           # by default as `input`
    output = "0.06"
    tiers = { priority = "2", flex = "0.5" }

    [models."gpt-4o-mini"]
    input = "0.15"
    output = "0.60"
    tiers.flex = { input = "0.08", output = "0.30" }

    [models."text-embedding-3-small"]
    embedding = "0.02"

    [models."sd-turbo"]
    units = { "512x512" = "0.004" } # USD for each image of this size

    [models."tool.weather"]         # a tool of the assistant
    units = { call = "0.001" }      # USD for each call

Prices are decimal strings, since floats are not exact. A price that is not a whole number of nano-USD per token
(0.001 USD per million) or per unit makes the file invalid.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from auth_billing.errors import UnacceptableValue
from auth_billing.prices.pricing import (
    MAX_TOKEN_PRICE,
    MAX_UNIT_PRICE,
    MAX_UNITS,
    PriceList,
    RateCard,
    TokenRate,
    check_unit,
)
from router.messages import ServiceClass
from router.topology import check_model_name
from runtime.lifecycle import StartupError

NANO_PER_MILLIONTH = 1000
"""Nano-USD per token in one USD per million tokens."""
NANO_DIGITS = 9
"""Decimal places of a nano-USD."""
MAX_DIGITS = 12
"""Characters of a number: the product of a price and a factor is then exact in `Decimal`'s 28 digits."""
DEFAULT_FILE = Path(__file__).with_name("default_prices.toml")
"""The prices of a new installation whose operator has no price file."""


def _decimal(value: object) -> Decimal:
    if not isinstance(value, str):
        raise ValueError('must be a string, for example "0.15"')
    whole, _, fraction = value.partition(".")
    if not (value.isascii() and whole.isdigit() and (fraction or "0").isdigit() and len(value) <= MAX_DIGITS):
        raise ValueError(f'{value!r} is not a number like "0.15": digits and a point, {MAX_DIGITS} characters at most')
    return Decimal(value)


def _nano(amount: Decimal, what: str) -> int:
    nano = amount * NANO_PER_MILLIONTH
    if nano != int(nano):
        raise ValueError(f"{what} is {amount:f} USD per million tokens: that is no whole number of nano-USD per token")
    if nano > MAX_TOKEN_PRICE:
        raise ValueError(f"{what} is {amount:f} USD per million tokens: more than a USD per token")
    return int(nano)


def _unit_nano(amount: Decimal, unit: str) -> int:
    nano = amount.scaleb(NANO_DIGITS)
    if nano != int(nano):
        raise ValueError(f"`units.{unit}` is {amount:f} USD: that is no whole number of nano-USD")
    if nano > MAX_UNIT_PRICE:
        raise ValueError(f"`units.{unit}` is {amount:f} USD: more than 1000 USD")
    return int(nano)


def _unit(name: str) -> str:
    try:
        return check_unit(name)
    except UnacceptableValue as error:
        raise ValueError(str(error)) from error


FileT = TypeVar("FileT", bound=BaseModel)

Amount = Annotated[Decimal, BeforeValidator(_decimal)]
"""USD per million tokens or per unit, or a factor."""
Unit = Annotated[str, AfterValidator(_unit)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tokens(_Table):
    """Prices by kind of token, of a text model or of an embedding model, and by unit, such as images and calls."""

    input: Amount | None = None
    cached_input: Amount | None = None
    output: Amount | None = None
    embedding: Amount | None = None
    units: Annotated[dict[Unit, Amount], Field(max_length=MAX_UNITS)] = {}
    """USD for each unit, by its name."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        text = (self.input, self.output)
        only_units = bool(self.units) and all(each is None for each in (*text, self.cached_input))
        if self.embedding is None and None in text and not only_units:
            raise ValueError("must have `input` and `output`, `embedding`, or only `units`")
        if self.embedding is not None and any(each is not None for each in (*text, self.cached_input)):
            raise ValueError("`embedding` stands alone: a model that embeds has no other tokens")
        self.rate(Decimal(1))
        return self

    def rate(self, factor: Decimal) -> TokenRate:
        """Convert one model's prices in the price file (USD) to nano-USD per token and unit, multiplied by `factor`.

        The factor is that of a service class.

        Raises:
            ValueError: a price is not a whole number of nano-USD, or too large; the message names it.
        """
        units = {unit: _unit_nano(each * factor, unit) for unit, each in self.units.items()}
        if self.embedding is not None:
            price = _nano(self.embedding * factor, "`embedding`")
            return TokenRate(price, price, 0, units=units)
        if self.input is None:
            return TokenRate(0, 0, 0, units=units)
        given = {"input": self.input, "cached_input": self.cached_input, "output": self.output}
        prices = {name: _nano(each * factor, f"`{name}`") for name, each in given.items() if each is not None}
        cached = prices.get("cached_input", prices["input"])
        rate = TokenRate(prices["input"], cached, prices["output"], units=units)
        if rate.cached_input > rate.input:
            raise ValueError("`cached_input` is more than `input`")
        return rate


def _kind_of_tier(value: object) -> str:
    return "prices" if isinstance(value, dict | Tokens) else "factor"


Tier = Annotated[
    Annotated[Amount, Tag("factor")] | Annotated[Tokens, Tag("prices")],
    Discriminator(_kind_of_tier),
]


class Entry(Tokens):
    """Prices of one model; a service class that is not among `tiers` has the same prices."""

    tiers: dict[ServiceClass, Tier] = {}
    """A factor, or separate prices, per service class."""

    @model_validator(mode="after")
    def _tiers(self) -> Self:
        if ServiceClass.DEFAULT in self.tiers:
            raise ValueError("the tier `default` is what stands outside `tiers`")
        self.rates()
        return self

    def rates(self) -> RateCard:
        """Return the rates of a model's price file entry in every service class, in nano-USD per token and unit."""
        return {each: self._of(each) for each in ServiceClass}

    def _of(self, service_class: ServiceClass) -> TokenRate:
        tier = self.tiers.get(service_class, Decimal(1))
        if isinstance(tier, Tokens):
            return tier.rate(Decimal(1))
        try:
            return self.rate(tier)
        except ValueError as error:
            raise ValueError(f"tier `{service_class}`: {error}") from error


class PriceFile(_Table):
    """A parsed price file."""

    default: Entry | None = None
    models: dict[Annotated[str, BeforeValidator(check_model_name)], Entry] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.default is None and not self.models:
            raise ValueError("there is no price in it: neither [default] nor [models]")
        return self

    def price_list(self, version: int) -> PriceList:
        """Return the prices of the file as a price list, which gets the version number `version`; nothing is stored."""
        models = {name: entry.rates() for name, entry in self.models.items()}
        return PriceList(version, models, None if self.default is None else self.default.rates())


class _CatalogueModel(BaseModel):
    price: Entry | None = None


class _Catalogue(BaseModel):
    """The prices in a proxy's catalogue; its other fields are validated by the proxy."""

    models: dict[str, _CatalogueModel] = Field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """The path and content of a file that was read."""

    path: Path
    content: bytes


def source(path: Path) -> Source:
    """Read a price file, or a proxy's catalogue with prices, from disk; return its path with its unparsed content.

    Raises:
        StartupError: the file can't be read.
    """
    try:
        return Source(path, path.read_bytes())
    except OSError as error:
        raise StartupError(f"cannot read {path}: {error.strerror}") from error


def parse(file: Source, catalogue: Source | None = None) -> PriceFile:
    """Parse the price file `file`, add the prices in a proxy's catalogue, and return all of them.

    The catalogue's prices are its models' `price`, an entry as in the file.

    Raises:
        StartupError: not TOML, a model has a price in both, or a price is invalid or not exact; the message names it.
    """
    prices = _parse(file, PriceFile)
    if catalogue is None:
        return prices
    outside = {name: model.price for name, model in _parse(catalogue, _Catalogue).models.items() if model.price}
    twice = sorted(outside.keys() & prices.models.keys())
    if twice:
        raise StartupError(f"{twice[0]!r} has a price in {file.path} and in {catalogue.path}: one of them is enough")
    return prices.model_copy(update={"models": {**prices.models, **outside}})


def has_prices(catalogue: Source) -> bool:
    """Return whether at least one model in a proxy's catalogue (unparsed TOML) has a price.

    Raises:
        StartupError: not TOML, or a price is invalid.
    """
    return any(model.price for model in _parse(catalogue, _Catalogue).models.values())


def unpriced(prices: PriceList, catalogue: Source) -> list[str]:
    """Return, sorted, the models of a proxy's catalogue without an entry in `prices`, which have the default price."""
    return sorted(_parse(catalogue, _Catalogue).models.keys() - prices.models.keys())


def _parse(file: Source, shape: type[FileT]) -> FileT:
    try:
        return shape.model_validate(tomllib.loads(file.content.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StartupError(f"{file.path} is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        raise StartupError(f"{file.path}: {where + ': ' if where else ''}{said}") from error
