/** All texts of the page in English, one file per part of the page. Other languages have the same type. */
import { account } from "./account";
import { admin } from "./admin";
import { batches } from "./batches";
import { chat } from "./chat";
import { documents } from "./documents";
import { history } from "./history";
import { limits } from "./limits";
import { modelAccess } from "./model_access";
import { moderation } from "./moderation";
import { serverSentences } from "./server_sentences";
import { shell } from "./shell";
import { steps } from "./steps";
import { usage } from "./usage";

export const en = {
  locale: "en" as "en" | "pl",
  ...shell,
  ...serverSentences,
  ...chat,
  ...steps,
  ...history,
  ...account,
  ...usage,
  ...batches,
  ...documents,
  ...admin,
  ...limits,
  ...modelAccess,
  ...moderation,
};

export type Messages = typeof en;
