"""Model aliases: the alias file, and the names that clients see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import msgspec
import pytest
import structlog.testing

from auth_billing.access.model_access import ALL_MODELS, ModelAccess, ModelPolicy, PolicyMode
from auth_billing.access.principal import Principal
from gateway.admission.model_catalogue import ModelCatalogue, read_aliases
from gateway.errors import ModelNotFound
from router.model_registry import ModelInfo, ModelRegistry
from router.producer.errors import ModelUnavailable
from runtime.lifecycle import StartupError
from tests.fakes.scripted_worker import status
from tests.gateway.conftest import KEY, MODEL, SetStage, eventually


def written(folder: Path, text: str) -> str:
    file = folder / "aliases.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_no_file_no_aliases() -> None:
    assert read_aliases("") == {}


def test_the_file(tmp_path: Path) -> None:
    text = '[aliases]\ngpt-4o = "org/model"\n"gpt-3.5-turbo" = "org/model"\n'
    assert read_aliases(written(tmp_path, text)) == {"gpt-4o": "org/model", "gpt-3.5-turbo": "org/model"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must hold one table"),
        ('gpt-4o = "m"', "must hold one table"),
        ('[aliases]\na = "m"\n[models]', "must hold one table"),
        ('aliases = "m"', "must hold one table"),
        ("[aliases]\na = 1", "'a' must be a model's name"),
        ('[aliases]\ngpt-3.5-turbo = "m"', "'gpt-3' is a table: write names with a dot in quotes"),
        ('[aliases]\na = ""', "printable names"),
        ('[aliases]\n"" = "m"', "printable names"),
        ('[aliases]\n"a\\nb" = "m"', "printable names"),
        (f'[aliases]\na = "{"m" * 201}"', "printable names"),
        ('[aliases]\na = "a"', "'a' leads to 'a', which is an alias itself"),
        ('[aliases]\na = "b"\nb = "m"', "'a' leads to 'b', which is an alias itself"),
        ('[aliases]\na = "b"\na = "c"', "can't read the aliases"),
        ("not toml", "can't read the aliases"),
    ],
)
def test_invalid_alias_files_are_refused(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=reason) as caught:
        read_aliases(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_missing_alias_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="No such file"):
        read_aliases(str(tmp_path / "none.toml"))
    (tmp_path / "latin.toml").write_bytes(b'[aliases]\na = "\xe9"')
    with pytest.raises(StartupError, match="can't read the aliases"):
        read_aliases(str(tmp_path / "latin.toml"))


@pytest.fixture
def aliases(tmp_path: Path) -> str:
    return written(tmp_path, f'[aliases]\ngpt-4o = "{MODEL}"\nlater = "org/later"\n')


async def test_an_alias_is_answered_by_its_model_under_the_models_own_name(set_stage: SetStage, aliases: str) -> None:
    stage = await set_stage(model_aliases=aliases)
    whole = (await stage.chat(model="gpt-4o")).json()
    assert whole["model"] == MODEL
    assert (await stage.complete(model="gpt-4o")).json()["model"] == MODEL
    assert f'"model":"{MODEL}"' in (await stage.chat(model="gpt-4o", stream=True)).text
    assert {job.model for job in stage.worker.jobs} == {MODEL}


async def test_the_model_list_has_aliases_of_known_models(set_stage: SetStage, aliases: str) -> None:
    stage = await set_stage(model_aliases=aliases)
    listed = (await stage.client.get("/v1/models")).json()["data"]
    assert [(model["id"], model["root"], model["object"]) for model in listed] == [
        ("gpt-4o", MODEL, "model"),
        (MODEL, MODEL, "model"),
    ]
    alone = (await stage.client.get("/v1/models/gpt-4o")).json()
    assert alone == listed[0]
    for response in (await stage.client.get("/v1/models/later"), await stage.chat(model="later")):
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "model_not_found"
        assert "'later'" in response.json()["error"]["message"]


def test_before_the_first_heartbeat_no_model_is_known_to_be_missing() -> None:
    with pytest.raises(ModelUnavailable):
        ModelCatalogue(ModelRegistry(lambda: 0.0), {}).find("org/any", ALL_MODELS)


async def test_a_target_appears_with_its_first_heartbeat(set_stage: SetStage, aliases: str) -> None:
    stage = await set_stage(model_aliases=aliases)
    stage.worker.bus.send_status(status("org/later", "worker-2"))
    await eventually(lambda: stage.gateway.models.find("org/later") is not None)
    assert (await stage.client.get("/v1/models/later")).json()["root"] == "org/later"


async def test_a_served_model_takes_precedence_over_an_alias_with_a_warning(set_stage: SetStage, aliases: str) -> None:
    stage = await set_stage(model_aliases=aliases)

    def found() -> ModelInfo:
        return stage.gateway.catalogue.find("gpt-4o", ALL_MODELS)

    assert found().name == MODEL
    with structlog.testing.capture_logs() as logs:
        for _ in range(2):
            stage.worker.bus.send_status(status("gpt-4o", "worker-2"))
        await eventually(lambda: found().name == "gpt-4o")
    assert [(entry["log_level"], entry["alias"]) for entry in logs if "alias" in entry] == [("warning", "gpt-4o")]
    listed = (await stage.client.get("/v1/models")).json()["data"]
    assert [(model["id"], model["root"]) for model in listed] == [("gpt-4o", "gpt-4o"), (MODEL, MODEL)]


@pytest.mark.parametrize("entry", [MODEL, "gpt-4o"])
async def test_a_key_sees_its_models_under_all_names_and_no_other_models(
    set_stage: SetStage, aliases: str, entry: str
) -> None:
    stage = await set_stage(model_aliases=aliases)
    stage.worker.bus.send_status(status("org/later", "worker-2"))
    await eventually(lambda: stage.gateway.models.find("org/later") is not None)
    stage.accounts.added[KEY] = Principal(
        "key-1", "tenant-1", "salt-1", models=ALL_MODELS.restricted_to(frozenset({entry, "org/gone"}))
    )

    listed = (await stage.client.get("/v1/models")).json()["data"]
    assert [model["id"] for model in listed] == ["gpt-4o", MODEL]
    for name in ("gpt-4o", MODEL):
        assert (await stage.chat(model=name)).status_code == 200
    for name in ("later", "org/later"):
        foreign, missing = name, name[::-1]
        asks: list[Callable[[str], Awaitable[httpx.Response]]] = [
            lambda model: stage.chat(model=model),
            lambda model: stage.client.get(f"/v1/models/{model}"),
        ]
        for ask in asks:
            answers = [await ask(model) for model in (foreign, missing)]
            assert [answer.status_code for answer in answers] == [404, 404]
            assert answers[0].text == answers[1].text.replace(missing, foreign)


async def test_a_key_without_models_sees_none(set_stage: SetStage, aliases: str) -> None:
    stage = await set_stage(model_aliases=aliases)
    stage.accounts.added[KEY] = Principal("key-1", "tenant-1", "salt-1", models=ALL_MODELS.restricted_to(frozenset()))
    assert (await stage.client.get("/v1/models")).json()["data"] == []
    for answer in (await stage.chat(), await stage.complete(), await stage.client.get(f"/v1/models/{MODEL}")):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert not stage.worker.jobs


async def test_every_listed_name_can_be_requested(set_stage: SetStage, aliases: str) -> None:
    """An alias of a model that is allowed, hidden by a model that is not."""
    stage = await set_stage(model_aliases=aliases)
    stage.worker.bus.send_status(status("gpt-4o", "worker-2"))
    await eventually(lambda: stage.gateway.models.find("gpt-4o") is not None)
    stage.accounts.added[KEY] = Principal(
        "key-1", "tenant-1", "salt-1", models=ALL_MODELS.restricted_to(frozenset({MODEL}))
    )
    assert [model["id"] for model in (await stage.client.get("/v1/models")).json()["data"]] == [MODEL]


@pytest.mark.parametrize(
    ("mode", "models", "may"),
    [
        (PolicyMode.DENY, {"small"}, False),
        (PolicyMode.DENY, {"gpt-4o"}, False),  # an alias of it
        (PolicyMode.DENY, {"other"}, True),
        (PolicyMode.ALLOW, {"assistant"}, True),
        (PolicyMode.ALLOW, {"small"}, False),
    ],
)
def test_a_forbidden_model_can_not_be_reached_through_an_assistant(
    mode: PolicyMode, models: set[str], may: bool
) -> None:
    catalogue = ModelCatalogue(ModelRegistry(lambda: 0.0), {"gpt-4o": "small"})
    catalogue.observe(msgspec.structs.replace(status("assistant"), unnamed_models=["small"]))
    access = ModelAccess((ModelPolicy(mode, frozenset(models)),))
    assert ("assistant" in dict(catalogue.listed(access))) == may
    if may:
        assert catalogue.find("assistant", access).unnamed_models == ("small",)
    else:
        with pytest.raises(ModelNotFound):
            catalogue.find("assistant", access)


def test_a_model_that_the_operator_named_is_reached_through_an_assistant() -> None:
    catalogue = ModelCatalogue(ModelRegistry(lambda: 0.0), {})
    catalogue.observe(status("assistant"))
    forbidden = ModelAccess((ModelPolicy(PolicyMode.DENY, frozenset({"small"})),))
    assert catalogue.find("assistant", forbidden).name == "assistant"
