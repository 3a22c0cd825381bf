// The page: tabs, the token, and a start of each tab when it is first opened.

import { models as getModels, onTokenWanted, untilReady } from "./api.js";
import { openCharacters } from "./characters.js";
import { openCurves } from "./curves.js";
import { byId } from "./dom.js";
import { lookOf } from "./series.js";
import { openTexts } from "./texts.js";
import { openTraining } from "./training.js";

const TABS = ["curves", "characters", "texts", "training"];
const opened = new Set();
let models = [];

/** Shows what went wrong, in words, above the tab; nothing takes it away again. */
function trouble(error) {
  const place = byId("trouble");
  const text = error ? error.message : "";
  if (place.textContent !== text) place.textContent = text;
  place.hidden = !error;
}

function choose(name, focus = false) {
  for (const tab of TABS) {
    const button = byId(`tab-${tab}`);
    button.setAttribute("aria-selected", String(tab === name));
    button.tabIndex = tab === name ? 0 : -1;
    byId(`panel-${tab}`).hidden = tab !== name;
    if (tab === name && focus) button.focus();
  }
  if (location.hash !== `#${name}`) history.replaceState(null, "", `#${name}`);
  trouble(null);
  if (opened.has(name)) return;
  opened.add(name);
  if (name === "curves") openCurves(models, trouble);
  if (name === "characters") openCharacters(models, trouble);
  if (name === "texts") openTexts(models, trouble);
  if (name === "training") openTraining(trouble, () => !byId("panel-training").hidden);
}

function onTabKey(event) {
  const now = TABS.findIndex((tab) => byId(`tab-${tab}`) === event.currentTarget);
  const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: TABS.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  choose(TABS[(to + TABS.length) % TABS.length], true);
}

/** The first tab that a model of the server is for. */
function firstTab() {
  const tabs = { curve: "curves", images: "characters", text: "texts" };
  const kinds = new Set(models.map((model) => model.kind));
  return tabs[Object.keys(tabs).find((kind) => kinds.has(kind))] ?? "curves";
}

function askForToken(wasTried) {
  const dialog = byId("token-dialog");
  const input = byId("token");
  if (wasTried) byId("token-remark").textContent = "That token is not the server's. Try another.";
  input.value = "";
  document.querySelector("a.api").hidden = true; // a link sends no token, and the description wants one too
  dialog.showModal();
  return new Promise((done) => {
    dialog.addEventListener("close", () => done(dialog.returnValue === "ok" ? input.value.trim() : null), { once: true });
  });
}

async function start() {
  onTokenWanted(askForToken);
  for (const tab of TABS) {
    byId(`tab-${tab}`).addEventListener("click", () => choose(tab));
    byId(`tab-${tab}`).addEventListener("keydown", onTabKey);
  }
  addEventListener("hashchange", () => TABS.includes(location.hash.slice(1)) && choose(location.hash.slice(1)));
  let failed = null;
  try {
    models = await getModels();
    models.filter((model) => model.kind === "curve").forEach(lookOf); // before other runs of their rules get theirs
    await untilReady(() => trouble(new Error("The server is getting ready: it compiles what it needs. A moment ...")));
  } catch (error) {
    failed = error;
  }
  choose(TABS.includes(location.hash.slice(1)) ? location.hash.slice(1) : firstTab());
  if (failed) trouble(failed);
  document.body.dataset.ready = "yes";
}

start();
