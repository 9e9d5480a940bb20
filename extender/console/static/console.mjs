// What scripts add to pages that read well without them: they stay up to date, times are told as
// "3 min ago", a map says which node is under the pointer, a file can be read into a form.

const page = document.getElementById("main");
const policy = self.trustedTypes?.createPolicy("console", { createHTML: (text) => text });
const STEP_MS = 1000; // between two updates, at least

// --- times ---------------------------------------------------------------------------------

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

function ago(seconds) {
  const past = Math.abs(seconds);
  if (past < 1) return "now";
  const [name, size] = UNITS.find(([, least]) => past >= least);
  const text = `${Math.floor(past / size)} ${name}`;
  return seconds >= 0 ? `${text} ago` : `in ${text}`;
}

function tellTimes(root) {
  const now = Date.now();
  for (const time of root.querySelectorAll("time[data-ago]")) {
    const at = Date.parse(time.dateTime);
    time.title = `${time.dateTime.replace("T", " ").replace("Z", " UTC")}`;
    const text = ago((now - at) / 1000);
    if (time.textContent !== text) time.textContent = text;
  }
}

// --- a page made again, without losing what a person is at -----------------------------------

const keyOf = (node) => node.nodeType === 1 ? node.id || node.dataset?.key || "" : "";

function alike(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);
}

function morph(old, fresh) {
  if (old.nodeType !== 1) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.dataset?.keep !== undefined || old.isEqualNode(fresh)) return;
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !(name === "open" && old.nodeName === "DETAILS")) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = keyOf(wanted);
    let found = key ? keyed.get(key) : undefined;
    if (found && !alike(found, wanted)) found = undefined;
    if (!found && at && !keyOf(at) && !key && alike(at, wanted)) found = at;
    if (!found) {
      const added = document.importNode(wanted, true);
      if (key && added.nodeType === 1) added.classList.add("fresh");
      old.insertBefore(added, at);
      continue;
    }
    keyed.delete(key);
    if (found === at) at = at.nextSibling;
    else old.insertBefore(found, at);
    morph(found, wanted);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// --- staying up to date ------------------------------------------------------------------------

let tag = "", running = false, wanted = false, live = true, last = -STEP_MS, timer = 0;

async function update() {
  if (running || !live || document.hidden) {
    wanted = true;
    return;
  }
  running = true;
  wanted = false;
  try {
    const answer = await fetch(location.href, {
      headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store", credentials: "same-origin",
    });
    if (answer.status === 200) {
      const text = await answer.text();
      tag = answer.headers.get("ETag") ?? "";
      const began = performance.now();
      const fresh = new DOMParser().parseFromString(policy ? policy.createHTML(text) : text, "text/html");
      const main = fresh.getElementById("main");
      if (main && !page.contains(document.activeElement?.closest("[data-busy]"))) {
        tellTimes(main);
        morph(page, main);
        const health = fresh.querySelector("#health .pill");
        const shown = document.querySelector("#health .pill");
        if (health && shown) morph(shown, health);
        const foot = fresh.querySelector(".foot");
        if (foot) morph(document.querySelector(".foot"), foot);
        names.clear();
      }
      performance.measure("console-update", { start: began, end: performance.now() });
      document.documentElement.dataset.updates = String(1 + Number(document.documentElement.dataset.updates ?? 0));
    }
  } catch {
    // The events say when the server is back.
  } finally {
    running = false;
    last = performance.now();
    if (wanted) soon();
  }
}

function soon() {
  if (timer || !live || document.hidden) {
    wanted = true;
    return;
  }
  timer = setTimeout(() => { timer = 0; update(); }, Math.max(0, last + STEP_MS - performance.now()));
}

function follow() {
  const place = document.getElementById("live");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "live";
  button.setAttribute("aria-pressed", "true");
  button.title = "Keep this page up to date";
  button.addEventListener("click", () => {
    live = !live;
    button.setAttribute("aria-pressed", String(live));
    if (live) update();
  });
  place.append(button);
  place.hidden = false;
  const events = new EventSource("events");
  events.addEventListener("news", soon);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && wanted) soon(); });
}

// --- the map -----------------------------------------------------------------------------------

const names = new Map(); // a zone's address -> promise of its cells
const PITCH = 12;

function cellsOf(map) {
  const { group, zone, by } = map.dataset;
  const address = `cells?${new URLSearchParams({ group, zone, by })}`;
  if (!names.has(address)) names.set(address, fetch(address).then((answer) => answer.ok ? answer.json() : []));
  return names.get(address);
}

function placeOf(map, event) {
  const box = map.getBoundingClientRect();
  const columns = Number(map.dataset.columns);
  const size = (box.width / columns) || PITCH;
  const column = Math.floor((event.clientX - box.left) / size);
  const place = Math.floor((event.clientY - box.top) / size) * columns + column;
  return column < columns && place < Number(map.dataset.count) ? place : -1;
}

let pointed = 0;

async function point(event) {
  const tip = document.getElementById("tip");
  if (!tip) return;
  const map = event.target.closest?.("svg.map");
  const place = map ? placeOf(map, event) : -1;
  const turn = ++pointed;
  const cell = place < 0 ? undefined : (await cellsOf(map))[place];
  if (turn !== pointed) return;
  tip.hidden = !cell;
  if (!cell) return;
  const [name, share, seats, leaving] = cell;
  tip.textContent = [name, share < 0 ? "" : `${share} %`, seats ? `${seats} ${seats === 1 ? "seat" : "seats"}` : "", leaving ? `${leaving} leaving` : ""].filter(Boolean).join(" · ");
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  tip.style.setProperty("left", `${left}px`);
  tip.style.setProperty("top", `${event.clientY + 16}px`);
}

async function open(event) {
  const map = event.target.closest?.("svg.map");
  const place = map ? placeOf(map, event) : -1;
  const cell = place < 0 ? undefined : (await cellsOf(map))[place];
  if (cell) location.href = `node?name=${encodeURIComponent(cell[0])}`;
}

// --- files ---------------------------------------------------------------------------------------

function reading() {
  for (const input of document.querySelectorAll("input[type=file][data-into]")) {
    input.closest("[hidden]").hidden = false;
    input.addEventListener("change", async () => {
      const [file] = input.files;
      if (file) input.form.elements[input.dataset.into].value = await file.text();
    });
  }
}

tellTimes(document);
setInterval(() => { if (!document.hidden) tellTimes(document); }, 5000);
reading();
if (page?.dataset.live === "yes") follow();
if (document.querySelector("svg.map")) {
  page.addEventListener("pointermove", point);
  page.addEventListener("pointerleave", point);
  page.addEventListener("click", open);
}
