/** Puts the page into the document. */
import { mount } from "svelte";
import App from "./App.svelte";
import { texts } from "./ui/messages";
import "./ui/theme.css";

const target = document.getElementById("app");
if (target === null) throw new Error("index.html has no #app");
document.documentElement.lang = texts.locale;
mount(App, { target });
