import { ApiError } from "../api/failure";
import { errorText } from "./error_text";

/** The state of a form that is sent to the API. */
export class Submission {
  busy = $state(false);
  /** The error message of the last submission; empty: there was none. */
  problem = $state("");

  /** Sends the form. `send` returns an error message if an input is invalid. */
  async run(send: () => Promise<string | undefined>): Promise<void> {
    [this.busy, this.problem] = [true, ""];
    try {
      this.problem = (await send()) ?? "";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.problem = errorText(error.failure);
    } finally {
      this.busy = false;
    }
  }
}
