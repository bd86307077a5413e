/** Reactive list of the person's presets (named model settings). */
import * as api from "../api/chat_api";
import type { ChatSettings, Preset } from "../api/chat_types";

export class Presets {
  list = $state.raw<readonly Preset[]>([]);

  async load(): Promise<void> {
    this.list = await api.listPresets();
  }

  /** Saves `settings` under `name`; an existing preset of this name is changed. */
  async save(name: string, settings: ChatSettings): Promise<Preset> {
    const known = this.list.find((preset) => preset.name === name);
    const saved = known ? await api.changePreset(known.id, { settings }) : await api.createPreset(name, settings);
    this.list = [...this.list.filter((preset) => preset.id !== saved.id), saved];
    return saved;
  }

  async remove(id: string): Promise<void> {
    await api.deletePreset(id);
    this.list = this.list.filter((preset) => preset.id !== id);
  }
}
