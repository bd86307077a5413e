import { svelte } from "@sveltejs/vite-plugin-svelte";
import { svelteTesting } from "@testing-library/svelte/vite";
import { defineConfig } from "vitest/config";

// No file is inlined: the page's security policy allows scripts and styles from its own origin only.
export default defineConfig({
  base: "/",
  plugins: [svelte(), svelteTesting()],
  build: { assetsInlineLimit: 0, modulePreload: { polyfill: false }, target: "es2022" },
  worker: { format: "es" },
  server: { host: "127.0.0.1", proxy: { "/v1": "http://127.0.0.1:8000", "/api": "http://127.0.0.1:8000" } },
  test: {
    environment: "jsdom",
    include: ["src/**/*.test.ts"],
    maxWorkers: "100%",
    restoreMocks: true,
    setupFiles: ["src/jsdom_stubs.ts"],
    testTimeout: 60_000,
  },
});
