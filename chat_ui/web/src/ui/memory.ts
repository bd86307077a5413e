/** Texts that the browser keeps for the page, where it allows that; where it does not, they are good for this visit. */

export class Memory {
  /** `area`: a browser that refuses storage throws when it is only named. */
  constructor(
    private readonly area: () => Storage,
    private readonly prefix: string,
  ) {}

  /** What was remembered; null where nothing was, or the browser keeps nothing. */
  recall(name: string): string | null {
    return this.#storage()?.getItem(this.prefix + name) ?? null;
  }

  remember(name: string, value: string): void {
    try {
      this.#storage()?.setItem(this.prefix + name, value);
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
    }
  }

  forget(name: string): void {
    this.#storage()?.removeItem(this.prefix + name);
  }

  /** Forgets all that has the prefix. */
  clear(): void {
    const storage = this.#storage();
    for (const key of Object.keys(storage ?? {})) if (key.startsWith(this.prefix)) storage?.removeItem(key);
  }

  #storage(): Storage | null {
    try {
      return this.area();
    } catch (error) {
      if (error instanceof DOMException) return null;
      throw error;
    }
  }
}
