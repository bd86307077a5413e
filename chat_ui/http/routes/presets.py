"""HTTP routes of presets and of the models to choose from: `/api/presets`, `/api/models`."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Request, Response

from auth_billing.ids import new_id
from chat_ui.errors import ConversationFull, NoSuchConversation, existing
from chat_ui.history import presets as preset_records
from chat_ui.history.limits import MAX_PRESETS
from chat_ui.history.records import ModelSettings
from chat_ui.http import serialisation
from chat_ui.http.access_control import Caller, max_body
from chat_ui.http.request_bodies import EmptyJson
from chat_ui.http.responses import no_content, schema_response
from chat_ui.http.schemas.conversations import SettingsBody
from chat_ui.http.schemas.presets import (
    ChatModel,
    ModelList,
    NewPresetJson,
    Preset,
    PresetJson,
    PresetList,
    SearchOffer,
)
from chat_ui.services import owner_of, services_of

router = APIRouter()

PRESET_BYTES = 256 * 1024


@router.get("/models", response_model=ModelList)
async def list_models(request: Request, caller: Caller) -> Response:
    """List the models that the caller may use, and what searches for answers can use (`GET /api/models`).

    Models are sorted by name.
    """
    services = services_of(request)
    principal = await services.principal(caller)
    models = [ChatModel.model_validate(each) for each in await services.model_client.models(principal)]
    offer = SearchOffer.model_validate(await services.model_client.search_offer(principal))
    return schema_response(ModelList(models=models, search=offer))


@router.get("/presets", response_model=PresetList)
async def list_presets(request: Request, caller: Caller) -> Response:
    """List the caller's presets (named sets of model settings), sorted by name (`GET /api/presets`)."""
    presets = await services_of(request).presets.all(owner_of(caller))
    return schema_response(PresetList(presets=[Preset.model_validate(each) for each in presets]))


@router.post("/presets", response_model=Preset, status_code=201)
@max_body(PRESET_BYTES)
async def create_preset(request: Request, caller: Caller, body: NewPresetJson) -> Response:
    """Store a preset (a named set of model settings) of the caller, and return it (`POST /api/presets`)."""
    presets, owner = services_of(request).presets, owner_of(caller)
    if len(await presets.all(owner)) >= MAX_PRESETS:
        raise ConversationFull(f"You have {MAX_PRESETS} presets: delete one first.")
    preset = preset_records.Preset(new_id("preset-"), body.name, _without_consents(body.settings))
    await presets.add(owner, preset)
    return schema_response(Preset.model_validate(preset), 201)


@router.patch("/presets/{preset_id}", response_model=Preset)
@max_body(PRESET_BYTES)
async def change_preset(request: Request, preset_id: str, caller: Caller, body: PresetJson) -> Response:
    """Rename a preset of the caller, or change its settings; return the preset (`PATCH /api/presets/{preset_id}`)."""
    changes = {
        "name": body.name,
        "settings": None if body.settings is None else _without_consents(body.settings),
    }
    given = {name: value for name, value in changes.items() if value is not None}
    presets, owner = services_of(request).presets, owner_of(caller)
    if not given:
        found = next((each for each in await presets.all(owner) if each.id == preset_id), None)
    else:
        found = await presets.change(owner, preset_id, given)
    return schema_response(Preset.model_validate(existing(found, preset_id)))


@router.delete("/presets/{preset_id}", status_code=204)
async def delete_preset(request: Request, preset_id: str, caller: Caller, _empty: EmptyJson) -> Response:
    """Delete a preset of the caller permanently (`DELETE /api/presets/{preset_id}`)."""
    if not await services_of(request).presets.remove(owner_of(caller), preset_id):
        raise NoSuchConversation(preset_id)
    return no_content()


def _without_consents(body: SettingsBody) -> ModelSettings:
    """Return the settings of a preset: consents belong to one conversation."""
    return replace(serialisation.settings_of(body), tools_allowed=())
