/** Strings in the browser's web storage; without effect where the browser refuses storage. */

export class WebStorage {
  /** `area` is a function because browsers that refuse storage throw at access to `localStorage`. */
  constructor(
    private readonly area: () => Storage,
    private readonly prefix: string,
  ) {}

  /** Returns the stored value; null if there is none. */
  get(name: string): string | null {
    return this.#storage()?.getItem(this.prefix + name) ?? null;
  }

  set(name: string, value: string): void {
    try {
      this.#storage()?.setItem(this.prefix + name, value);
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
    }
  }

  remove(name: string): void {
    this.#storage()?.removeItem(this.prefix + name);
  }

  /** Deletes all values with this prefix. */
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
