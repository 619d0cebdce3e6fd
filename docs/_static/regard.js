// The search field of the pages of errors and settings. It shows the entries with the most of the words, because a message that
// is pasted into it also has names and numbers for which the page has "…", and unfolds the parts that have such entries.
for (const field of document.querySelectorAll("[data-filter]")) {
  const input = field.querySelector("input");
  const status = field.querySelector("output");
  const parts = [...document.querySelectorAll("article details")].map((details) => ({
    details,
    section: details.closest("section"),
    entries: [...details.querySelectorAll("li, dt")].map((first) => {
      const nodes = first.tagName === "DT" ? [first, first.nextElementSibling] : [first];
      return { nodes, text: nodes.map((node) => node?.textContent ?? "").join(" ").toLowerCase() };
    }),
  }));
  field.hidden = false;
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const share = ({ text }) => words.filter((word) => text.includes(word)).length / (words.length || 1);
    const best = Math.max(0, ...parts.flatMap(({ entries }) => entries.map(share)));
    let total = 0;
    for (const { details, section, entries } of parts) {
      let found = 0;
      for (const entry of entries) {
        const shown = !words.length || (share(entry) >= 0.5 && share(entry) >= best - 0.1);
        for (const node of entry.nodes) if (node) node.hidden = !shown;
        found += shown;
      }
      details.open = words.length > 0 && found > 0;
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
for (const code of document.querySelectorAll("pre")) {
  if (code.scrollWidth > code.clientWidth || code.scrollHeight > code.clientHeight) code.tabIndex = 0;
}
