/** Names of an assistant's tools, and what they do, in the person's language. */
import { texts } from "../ui/messages";

const known = (names: Readonly<Record<string, string>>, tool: string): string | undefined =>
  Object.hasOwn(names, tool) ? names[tool] : undefined;

/** Returns a tool's name; a tool of an MCP server keeps its own, without the prefix `mcp.`. */
export function toolName(tool: string): string {
  return known(texts.toolNames, tool) ?? tool.replace(/^mcp\./, "");
}

/** Returns a question for a tool of the assistant; undefined for a tool of an MCP server. */
export function toolSuggestion(tool: string): string | undefined {
  return known(texts.toolSuggestions, tool);
}

/** Returns what a running tool does. */
export function toolRunning(tool: string): string {
  return known(texts.toolRunning, tool) ?? texts.otherToolRunning(toolName(tool));
}
