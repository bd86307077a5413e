/** Client-side router: the browser's history as reactive state. Links within the page are followed without reloading. */
import { href, parse, type Route } from "./routes";

export class Router {
  route = $state.raw<Route>(parse(location.pathname, location.hash));
  /** Whether the route has changed since the document was loaded. */
  hasNavigated = false;

  /** Navigates to a route. `replace`: the current history entry is replaced. */
  go(route: Route, { replace = false } = {}): void {
    history[replace ? "replaceState" : "pushState"](null, "", href(route));
    this.#read();
    if (!replace) scrollTo(0, 0);
  }

  /** Handles Back, Forward and clicks on links, until the returned function is called. */
  listen(): () => void {
    const read = (): void => this.#read();
    const follow = (event: MouseEvent): void => this.#follow(event);
    addEventListener("popstate", read);
    document.addEventListener("click", follow);
    return () => {
      removeEventListener("popstate", read);
      document.removeEventListener("click", follow);
    };
  }

  #read(): void {
    this.hasNavigated = true;
    this.route = parse(location.pathname, location.hash);
  }

  /** Navigates on a plain click on a link to a known route; the browser handles all other clicks. */
  #follow(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(link instanceof HTMLAnchorElement) || link.target !== "" || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || link.getAttribute("href")?.startsWith("#") === true) return;
    const route = parse(link.pathname, link.hash);
    if (route.name === "unknown") return;
    event.preventDefault();
    this.go(route);
  }
}

export const router = new Router();
