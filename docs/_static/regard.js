// The search field of the pages of errors, settings and commands: it shows the entries that fit, and unfolds their parts. An entry
// fits if it has the words of the query, or if the query, such as a whole message with names and numbers, has its words (of a row
// of a table, those of its first cell).
const wordsOf = (text) => [...new Set(text.toLowerCase().match(/[\p{L}\d]{2,}/gu))];
const share = (words, found) => words.filter(found).length / (words.length || 1);
for (const field of document.querySelectorAll("[data-filter]")) {
  const input = field.querySelector("input");
  const status = field.querySelector("output");
  const parts = [...document.querySelectorAll("article details, article table")].map((whole) => ({
    whole,
    section: whole.closest("section"),
    entries: [...whole.querySelectorAll("li, dt, tbody tr")].map((first) => {
      const nodes = first.tagName === "DT" ? [first, first.nextElementSibling] : [first];
      const text = nodes.map((node) => node?.textContent ?? "").join(" ").toLowerCase();
      return { nodes, text, words: wordsOf((first.cells?.[0].textContent ?? text).replace(/^\w+error:/, "")) };
    }),
  }));
  field.hidden = false;
  input.addEventListener("input", () => {
    const words = wordsOf(input.value);
    const fits = (entry) => {
      const whole = words.length > 4 ? share(entry.words, (word) => words.includes(word)) : 0;
      return Math.max(share(words, (word) => entry.text.includes(word)), whole);
    };
    const best = Math.max(0, ...parts.flatMap(({ entries }) => entries.map(fits)));
    let total = 0;
    for (const { whole, section, entries } of parts) {
      let found = 0;
      for (const entry of entries) {
        const shown = !words.length || fits(entry) >= Math.max(0.6, best - 0.1);
        for (const node of entry.nodes) if (node) node.hidden = !shown;
        found += shown;
      }
      if (whole.tagName === "DETAILS") whole.open = words.length > 0 && found > 0;
      if (section?.querySelectorAll("details").length === 1) section.hidden = !found;
      total += found;
    }
    status.textContent = words.length ? `${total} found` : "";
  });
}

// What screen readers and keyboards need and the theme leaves out.
for (const caption of document.querySelectorAll(".sidebar-tree [role=heading]")) caption.ariaLevel = "2";
document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
for (const icons of document.querySelectorAll(".content-icon-container")) Object.assign(icons, { role: "navigation", ariaLabel: "This page" });
for (const code of document.querySelectorAll("pre")) {
  if (code.scrollWidth > code.clientWidth || code.scrollHeight > code.clientHeight) code.tabIndex = 0;
}
