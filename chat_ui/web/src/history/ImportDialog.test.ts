import { render, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { afterEach, expect, it, vi } from "vitest";
import * as api from "../api/chat_api";
import type { Import } from "../api/chat_types";
import { language } from "../ui/messages/language.svelte";
import ImportDialog from "./ImportDialog.svelte";

const ENDED: Import = {
  id: "import-1",
  state: "done",
  begun: 1,
  total: 3,
  done: 3,
  imported: 1,
  known: 0,
  skipped: [
    { title: "Long", reason: "too_many_messages", limit: 2000 },
    { title: "", reason: "no_text", limit: null },
  ],
};

afterEach(() => language.choose(null));

it("shows in the person's language why conversations were skipped", async () => {
  vi.spyOn(api, "lastImport").mockResolvedValueOnce({ ...ENDED, state: "running" }).mockResolvedValue(ENDED);
  const onImported = vi.fn();
  render(ImportDialog, { onImported, onClose: vi.fn() });
  await vi.waitFor(() => expect(onImported).toHaveBeenCalledOnce(), { timeout: 20_000 });
  const reasons = () => screen.getAllByRole("listitem").map((item) => item.textContent);
  expect(reasons()).toEqual(["Long: It has more than 2,000 messages.", "Untitled: There is no text in it."]);
  language.choose("pl");
  await tick();
  expect(reasons()).toEqual(["Long: Ma więcej wiadomości niż 2000.", "Bez tytułu: Nie ma w niej tekstu."]);
});
