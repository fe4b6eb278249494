"use strict";
// Sorting, cards, choosing methods, hover values, folds, the theme and downloads. The page is whole
// without it.
(() => {
  // Each figure's CSV, by name; deflated in the page.
  const unpack = async () => {
    const packed = atob(document.getElementById("data").textContent);
    const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };
  let data = {};
  const ready = unpack().then((found) => { data = found; });
  const root = document.documentElement;

  // --- theme, remembered where the browser lets a file remember
  const button = document.getElementById("theme");
  const remembered = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("linsep-theme");
      localStorage.setItem("linsep-theme", value);
    } catch { /* a page from a file may not be allowed to */ }
    return null;
  };
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
  const kept = remembered();
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remembered(root.dataset.theme);
    label();
  });
  label();

  // --- tables: a click on a head sorts each group of rows by that column
  const key = (cell) => {
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    const text = cell.textContent.trim();
    if (text === "-") return null;
    const number = /^[<≤]?[-+−]?\d[\d.]*(e[-+]?\d+)?/i.exec(text);
    return number ? Number(number[0].replace(/^[<≤]/, "").replace("−", "-")) : text;
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number"
    ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  root.classList.add("cards"); // on a phone each row is one, with the heads beside its values
  for (const table of document.querySelectorAll("table")) {
    const heads = [...table.tHead.rows[0].cells].map((head) => head.firstChild?.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, at) => { cell.dataset.label = heads[at] ?? ""; });
    }
  }
  for (const head of document.querySelectorAll("thead th")) {
    const press = document.createElement("button");
    press.type = "button";
    press.append(...head.childNodes);
    head.append(press);
    press.addEventListener("click", () => {
      const way = head.getAttribute("aria-sort") === "descending" ? "ascending"
        : head.getAttribute("aria-sort") === "ascending" ? "descending"
          : head.classList.contains("number") ? "descending" : "ascending";
      for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", way);
      const column = [...head.parentNode.children].indexOf(head);
      const sign = way === "ascending" ? 1 : -1;
      for (const body of head.closest("table").tBodies) {
        const sorted = [...body.rows].filter((row) => !row.classList.contains("place"));
        const rows = sorted.map((row) => [key(row.cells[column]), row]);
        rows.sort(([a], [b]) => a === null || b === null
          ? (a === null) - (b === null) : sign * compare(a, b));
        body.append(...rows.map(([, row]) => row));
      }
    });
  }

  // --- methods: a click in a legend hides one or shows it again, in all figures and tables
  const keys = [...document.querySelectorAll("#legend .key")];
  const variants = keys.map((key) => key.dataset.variant);
  const hidden = new Set();
  const byName = new Map(keys.map((key) => [key.textContent.trim(), key.dataset.variant]));
  for (const table of document.querySelectorAll("table")) {
    const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim().toLowerCase());
    const column = ["variant", "method"].map((name) => heads.indexOf(name)).find((at) => at >= 0);
    if (column === undefined) continue;
    for (const body of table.tBodies) {
      for (const row of body.rows) {
        const variant = byName.get(row.cells[column]?.textContent.trim());
        if (variant !== undefined) row.dataset.variant = variant;
      }
    }
  }
  const buttons = keys.map((key) => {
    const press = document.createElement("button");
    press.type = "button";
    press.className = "key";
    press.dataset.variant = key.dataset.variant;
    press.title = "Click to hide or show, Shift-click to show it alone";
    press.append(...key.childNodes);
    key.replaceWith(press);
    return press;
  });
  const all = document.createElement("button");
  const follow = () => {
    for (const part of document.querySelectorAll("[data-variant]")) {
      const off = part.dataset.variant.split(" ").every((variant) => hidden.has(variant));
      part.classList.toggle("off", off);
    }
    for (const press of buttons) {
      press.setAttribute("aria-pressed", String(!hidden.has(press.dataset.variant)));
    }
    all.disabled = !hidden.size;
    hide();
  };
  const choose = (variant, alone) => {
    if (alone) {
      for (const other of variants) hidden.add(other);
      hidden.delete(variant);
    } else if (!hidden.delete(variant)) hidden.add(variant);
    if (hidden.size === variants.length) hidden.clear(); // a page with nothing on it helps nobody
    follow();
  };
  const showAll = () => { hidden.clear(); follow(); };

  // --- values: by mouse, touch, or focus and arrow keys
  const tip = document.getElementById("tip");
  const show = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.max(4, Math.min(x + 12, innerWidth - box.width - 4));
    const above = y - box.height - 10;
    tip.style.left = `${left}px`;
    tip.style.top = `${above < 4 ? y + 16 : above}px`;
  };
  const hide = () => {
    tip.hidden = true;
    for (const spot of document.querySelectorAll(".here")) spot.classList.remove("here");
  };
  for (const title of document.querySelectorAll(".spots title")) {
    title.parentNode.dataset.tip = title.textContent; // the browser's own, slower, would come too
    title.remove();
  }
  const parse = (csv) => {
    const rows = [[]];
    let text = "", quoted = false;
    for (let i = 0; i < csv.length; i++) {
      const c = csv[i];
      if (quoted) {
        if (c !== '"') text += c;
        else if (csv[i + 1] === '"') { text += c; i++; } else quoted = false;
      } else if (c === '"') quoted = true;
      else if (c === "," || c === "\n") {
        rows[rows.length - 1].push(text);
        text = "";
        if (c === "\n") rows.push([]);
      } else text += c;
    }
    return rows.filter((row) => row.length);
  };
  const parsed = {};
  const cell = (grid, x, y) => { // x, y in 0..1 from the upper left
    const name = grid.closest("figure").dataset.name;
    if (!(name in data)) return "…";
    const [head, ...rows] = parsed[name] ??= parse(data[name]);
    const row = rows[Math.min(rows.length - 1, Math.floor(y * rows.length))];
    const column = Math.min(rows.length, 1 + Math.floor(x * rows.length));
    const sum = row.slice(1).reduce((a, b) => a + Number(b), 0);
    const share = sum ? (100 * row[column] / sum).toFixed(1) : "-";
    return `${row[0]} predicted as ${head[column]}: ${share} % (${row[column]} of ${sum})`;
  };
  const look = (event) => {
    const target = event.target;
    if (!(target instanceof Element)) return;
    if (target.dataset?.tip !== undefined) show(target.dataset.tip, event.clientX, event.clientY);
    else if (target.classList.contains("grid")) {
      const box = target.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width, y = (event.clientY - box.top) / box.height;
      show(cell(target, Math.max(0, x), Math.max(0, y)), event.clientX, event.clientY);
    } else hide();
  };
  document.addEventListener("pointermove", look);
  document.addEventListener("pointerdown", look);
  document.addEventListener("scroll", hide, { passive: true, capture: true });
  for (const drawing of document.querySelectorAll(".drawing svg")) {
    const spots = [...drawing.querySelectorAll("[data-tip]")];
    const grid = drawing.querySelector(".grid");
    if (!spots.length && !grid) continue;
    drawing.tabIndex = 0;
    const side = grid ? Number(grid.dataset.side) : 0;
    let at = -1;
    drawing.addEventListener("keydown", (event) => {
      const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: side || 1, ArrowUp: -(side || 1) };
      if (event.key === "Escape") hide();
      if (!(event.key in moves)) return;
      event.preventDefault();
      const n = grid ? side * side : spots.length;
      at = at < 0 ? 0 : (at + moves[event.key] + n) % n;
      const way = moves[event.key];
      for (let tried = 0; !grid && tried < n && spots[at].matches(".off"); tried++) {
        at = (at + way + n) % n;
      }
      hide();
      if (grid) {
        const x = (at % side + .5) / side, y = (Math.floor(at / side) + .5) / side;
        const box = grid.getBoundingClientRect();
        show(cell(grid, x, y), box.left + x * box.width, box.top + y * box.height);
      } else {
        spots[at].classList.add("here");
        const box = spots[at].getBoundingClientRect();
        show(spots[at].dataset.tip, box.left + box.width / 2, box.top);
      }
    });
    drawing.addEventListener("blur", hide);
  }

  // --- legends, once hiding values is defined
  if (keys.length) {
    all.type = "button";
    all.textContent = "Show all";
    all.addEventListener("click", showAll);
    document.getElementById("legend").append(all);
    for (const key of [...buttons, ...document.querySelectorAll(".drawing .key")]) {
      key.addEventListener("click", (event) => choose(key.dataset.variant, event.shiftKey));
    }
    follow();
  }

  // --- downloads
  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const standalone = (drawing, colour) => {
    const copy = drawing.cloneNode(true);
    copy.querySelectorAll(".spots, .grid, .off").forEach((part) => part.remove());
    for (const name of ["tabindex", "style"]) copy.removeAttribute(name);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    if (colour) copy.setAttribute("color", colour);
    return new XMLSerializer().serializeToString(copy);
  };
  const picture = (drawing, name) => {
    const box = drawing.viewBox.baseVal, scale = 3, style = getComputedStyle(document.body);
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [box.width * scale, box.height * scale];
      const context = canvas.getContext("2d");
      context.fillStyle = style.backgroundColor;
      context.fillRect(0, 0, canvas.width, canvas.height);
      context.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(blob, `${name}.png`), "image/png");
    };
    const text = standalone(drawing, style.color);
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  };
  for (const figure of document.querySelectorAll("figure[data-name]")) {
    const drawing = figure.querySelector("svg"), name = figure.dataset.name;
    const actions = {
      SVG: () => save(new Blob([standalone(drawing)], { type: "image/svg+xml" }), `${name}.svg`),
      PNG: () => picture(drawing, name),
      CSV: async () => {
        await ready;
        save(new Blob([data[name]], { type: "text/csv" }), `${name}.csv`);
      },
    };
    for (const [text, act] of Object.entries(actions)) {
      const press = document.createElement("button");
      press.type = "button";
      press.textContent = text;
      press.title = `Download ${name}.${text.toLowerCase()}`;
      press.addEventListener("click", act);
      figure.querySelector(".get").append(press);
    }
  }

  // --- folds: a link opens the section it leads to; the navigation shows where the reader is
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const unfold = () => {
    const fold = document.getElementById(location.hash.slice(1))?.querySelector("details.whole");
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();
  const here = new IntersectionObserver((entries) => {
    for (const entry of entries) links.get(entry.target.id)?.toggleAttribute("data-seen", entry.isIntersecting);
    const first = document.querySelector("nav a[data-seen]");
    for (const link of links.values()) link.removeAttribute("aria-current");
    first?.setAttribute("aria-current", "true");
  }, { rootMargin: "-15% 0px -60% 0px" });
  for (const section of document.querySelectorAll("main > section")) here.observe(section);

  // --- print everything, also what is folded
  addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("details:not([open])")) {
      fold.open = true;
      fold.dataset.opened = "";
    }
  });
  addEventListener("afterprint", () => {
    for (const fold of document.querySelectorAll("details[data-opened]")) {
      fold.open = false;
      delete fold.dataset.opened;
    }
  });
})();
