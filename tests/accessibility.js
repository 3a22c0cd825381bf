// Finds faults that keep people out: things without a name, text too faint, targets too small, broken references.
// Evaluated in a page; gives a list of sentences, empty when all is well.
(() => {
  const faults = [];
  const say = (element, what) => {
    const id = element.id ? `#${element.id}` : element.className?.baseVal ?? element.className ?? "";
    faults.push(`${element.tagName.toLowerCase()} ${id}: ${what}`);
  };
  const shown = (element) => element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0;
  const unseen = (element) => element.closest(".unseen, [aria-hidden=true]") !== null;
  const text = (id) => document.getElementById(id)?.textContent.trim() ?? "";

  const name = (element) =>
    element.getAttribute("aria-label")?.trim()
    || (element.getAttribute("aria-labelledby") ?? "").split(/\s+/).map(text).join(" ").trim()
    || [...(element.labels ?? [])].map((label) => label.textContent.trim()).join(" ")
    || (element.matches("input, select, progress, svg, canvas") ? "" : element.textContent.trim())
    || element.getAttribute("title")?.trim();

  // Structure
  if (!document.documentElement.lang) faults.push("the page has no language");
  if (!document.title) faults.push("the page has no title");
  if (document.querySelectorAll("h1").length !== 1) faults.push("there is not exactly one h1");
  if (document.querySelectorAll("main").length !== 1) faults.push("there is not exactly one main");
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].filter(shown).map((heading) => Number(heading.tagName[1]));
  levels.forEach((level, n) => n && level > levels[n - 1] + 1 && faults.push(`a heading of level ${level} follows one of ${levels[n - 1]}`));
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((one, n) => ids.indexOf(one) !== n))) faults.push(`the id ${id} is there twice`);
  for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
    for (const element of document.querySelectorAll(`[${attribute}]`)) {
      for (const id of element.getAttribute(attribute).split(/\s+/)) {
        if (!document.getElementById(id)) say(element, `${attribute} names ${id}, which is not there`);
      }
    }
  }
  for (const list of document.querySelectorAll("[role=tablist]")) {
    const tabs = [...list.querySelectorAll("[role=tab]")];
    const chosen = tabs.filter((tab) => tab.getAttribute("aria-selected") === "true");
    if (chosen.length !== 1 || tabs.some((tab) => (tab.tabIndex === 0) !== (tab === chosen[0]))) say(list, "not one chosen tab that alone is in the tab order");
    for (const tab of tabs) {
      const panel = document.getElementById(tab.getAttribute("aria-controls"));
      if (panel?.getAttribute("role") !== "tabpanel" || panel.hidden === (tab === chosen[0])) say(tab, "its panel does not follow it");
    }
  }
  if (!document.querySelector("[aria-live]")) faults.push("nothing is announced");

  // Names and sizes of what can be used
  const usable = "button, a[href], input:not([type=hidden]), select, textarea, [tabindex='0'], [role=tab]";
  for (const element of [...document.querySelectorAll(usable)].filter(shown)) {
    if (!name(element)) say(element, "has no name");
    if (element.closest("[aria-hidden=true]")) say(element, "can be reached, but is hidden from screen readers");
    if (element.tabIndex > 0) say(element, "forces its place in the tab order");
    const target = element.matches("[type=checkbox], [type=radio]") ? element.closest("label") ?? element : element;
    const { width, height } = target.getBoundingClientRect();
    if (!element.classList.contains("skip") && (width < 24 || height < 24)) say(element, `is only ${Math.round(width)} x ${Math.round(height)} pixels`);
  }
  for (const image of document.querySelectorAll("img:not([alt])")) say(image, "has no alt");
  for (const element of document.querySelectorAll("svg, canvas, progress")) {
    if (shown(element) && !name(element) && !unseen(element)) say(element, "neither has a name nor is hidden from screen readers");
  }

  // Contrast of text with what is behind it
  const brush = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = color;
    brush.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], back) => [r, g, b].map((value, n) => value * a + back[n] * (1 - a));
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((back, layer) => over(layer, back), [255, 255, 255]);
  };
  const light = (color) => {
    const [r, g, b] = color.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || seen.has(element) || !shown(element) || unseen(element) || element.closest(":disabled, .skip")) continue;
    seen.add(element);
    const style = getComputedStyle(element);
    const drawn = element instanceof SVGElement;
    const back = behind(drawn ? element.ownerSVGElement.parentElement : element);
    const found = ratio(over(rgba(drawn ? style.fill : style.color), back), back);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (found < (large ? 3 : 4.5)) say(element, `"${element.textContent.trim().slice(0, 30)}" has a contrast of only ${found.toFixed(2)}`);
    if (size < 11.9) say(element, `has letters of only ${size} pixels`);
  }
  return faults;
})()
