/** Entry point: mounts the page into the document. */
import { mount } from "svelte";
import App from "./App.svelte";
import { theme } from "./ui/theme.svelte";
import "./ui/theme.css";

const target = document.getElementById("app");
if (target === null) throw new Error("index.html has no #app");
theme.apply();
mount(App, { target });
