import { afterEach, expect, it } from "vitest";
import { en } from "./messages/en";
import { language } from "./messages/language.svelte";
import { pl } from "./messages/pl";
import { serverText } from "./server_sentences";

afterEach(() => language.choose(null));

it("shows the server's sentences as they are in English", () => {
  expect(serverText("The file is empty.")).toBe("The file is empty.");
});

it.each([
  ["The file is empty.", "Plik jest pusty."],
  ["The file has 6,001 pages, at most 5,000 are read.", "Liczba stron pliku: 6001; odczytywanych jest najwyżej 5000."],
  ["The file has a format that is not read: an image.", "Ten format nie jest odczytywany: obraz."],
  ["Reading the file takes more CPU time than it may.", "Odczytanie pliku wymaga za dużo zasobów (czas procesora)."],
  [
    "Scanned, and not read because no text was found: pages 1-4, 7 of 12. Damaged, and not read: page 9 of 12.",
    "Zeskanowano i nie odczytano, ponieważ nie znaleziono tekstu: strony 1-4, 7 z 12. Uszkodzone i nieodczytane: strona 9 z 12.",
  ],
  [
    "Your project or organization stores as much as is allowed. Please delete something.",
    "Twój projekt lub organizacja przechowuje już tyle, ile wolno. Usuń coś.",
  ],
  ["The file has no text. No credit is left.", "Plik nie zawiera tekstu. Serwer odpowiedział: No credit is left."],
])("translates %s", (english, polish) => {
  language.choose("pl");
  expect(serverText(english).replace(/(\d)\s(\d)/g, "$1$2")).toBe(polish);
});

it("has as many values in both languages", () => {
  const values = (sentences: Readonly<Record<string, string>>) => Object.entries(sentences).map(([name, text]) => [name, text.split("{}").length]);
  expect(values(pl.serverSentences)).toEqual(values(en.serverSentences));
});
