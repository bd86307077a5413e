"""Routes of presets and of the models to choose from: `/api/presets`, `/api/models`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from auth_billing.ids import new_id
from chat_ui.chat import chat_of, owner_of
from chat_ui.errors import ConversationFull, NoSuchConversation
from chat_ui.generations.engine import ServedModel
from chat_ui.history import records
from chat_ui.history.bounds import MOST_PRESETS
from chat_ui.http import rendering
from chat_ui.http.answers import nothing, shown
from chat_ui.http.bodies import NoBody, body_of
from chat_ui.http.guard import Caller, takes_up_to
from chat_ui.http.shapes.presets import (
    ChatModel,
    ModelList,
    NewPresetBody,
    Preset,
    PresetBody,
    PresetList,
    TokenPrice,
)

router = APIRouter()

PRESET_BYTES = 256 * 1024


@router.get("/models", response_model=ModelList)
async def list_models(request: Request, caller: Caller) -> Response:
    """List the models that the caller may use, sorted by name."""
    chat = chat_of(request)
    models = await chat.engine.models(chat.principal(caller))
    return shown(ModelList(models=[_model(each) for each in models]))


@router.get("/presets", response_model=PresetList)
async def list_presets(request: Request, caller: Caller) -> Response:
    """List the caller's presets, sorted by name."""
    presets = await chat_of(request).presets.all(owner_of(caller))
    return shown(PresetList(presets=[rendering.preset(each) for each in presets]))


@router.post("/presets", response_model=Preset, status_code=201)
@takes_up_to(PRESET_BYTES)
async def create_preset(
    request: Request, caller: Caller, body: Annotated[NewPresetBody, Depends(body_of(NewPresetBody))]
) -> Response:
    """Create a preset."""
    presets, owner = chat_of(request).presets, owner_of(caller)
    if len(await presets.all(owner)) >= MOST_PRESETS:
        raise ConversationFull(f"You have {MOST_PRESETS} presets: delete one first.")
    preset = records.Preset(new_id("preset-"), body.name, rendering.settings_of(body.settings))
    await presets.add(owner, preset)
    return shown(rendering.preset(preset), 201)


@router.patch("/presets/{preset_id}", response_model=Preset)
@takes_up_to(PRESET_BYTES)
async def change_preset(
    request: Request, preset_id: str, caller: Caller, body: Annotated[PresetBody, Depends(body_of(PresetBody))]
) -> Response:
    """Rename a preset, or change its settings."""
    changes = {
        "name": body.name,
        "settings": None if body.settings is None else rendering.settings_of(body.settings),
    }
    given = {name: value for name, value in changes.items() if value is not None}
    presets, owner = chat_of(request).presets, owner_of(caller)
    if not given:
        found = next((each for each in await presets.all(owner) if each.id == preset_id), None)
    else:
        found = await presets.change(owner, preset_id, given)
    if found is None:
        raise NoSuchConversation(preset_id)
    return shown(rendering.preset(found))


@router.delete("/presets/{preset_id}", status_code=204)
async def delete_preset(
    request: Request, preset_id: str, caller: Caller, _none: Annotated[NoBody, Depends(body_of(NoBody))]
) -> Response:
    """Delete a preset."""
    if not await chat_of(request).presets.remove(owner_of(caller), preset_id):
        raise NoSuchConversation(preset_id)
    return nothing()


def _model(model: ServedModel) -> ChatModel:
    price = model.price
    return ChatModel(
        id=model.id,
        context=model.context,
        price=None
        if price is None
        else TokenPrice(input_nano=price.input, cached_input_nano=price.cached_input, output_nano=price.output),
        ready=model.ready,
    )
