/** All texts of the page in Polish. */
import type { Messages } from "../en";
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

export const pl: Messages = {
  locale: "pl",
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
