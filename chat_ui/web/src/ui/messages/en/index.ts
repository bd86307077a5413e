/** Every text that a person can meet, in English: a file a part of the page. The other languages have the same shape. */
import { account } from "./account";
import { admin } from "./admin";
import { chat } from "./chat";
import { history } from "./history";
import { shell } from "./shell";
import { usage } from "./usage";

export const en = { locale: "en", ...shell, ...chat, ...history, ...account, ...usage, ...admin };

export type Messages = typeof en;
