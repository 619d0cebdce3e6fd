// Classifications: the words of a text, coloured by their weights.
for (const article of document.querySelectorAll(".classified")) {
  const script = article.querySelector(":scope > script");
  if (!script) continue;
  const data = JSON.parse(script.textContent);
  let words = [...article.querySelectorAll(".text > .word")];
  const readout = article.querySelector(".readout");
  const site = article.querySelector("select.site");
  const head = article.querySelector("select.head");
  const units = article.querySelector("select.units");
  let view = data.views[0];
  let stop = words[0];

  const weight = (cell) => cell / 10 ** view.places;
  const value = (cell) => weight(cell).toFixed(view.places);
  const shade = (cell) =>
    (cell < 0 ? "b" : "a") + Math.floor(Math.min(1, Math.abs(weight(cell)) / view.scale) * data.levels + 0.5);

  const show = (event) => {
    const index = words.indexOf(event.target.closest?.(".word"));
    if (index < 0) return;
    article.querySelector(".text > .here")?.classList.remove("here");
    words[index].classList.add("here");
    const rank = 1 + view.cells.filter((cell) => Math.abs(cell) > Math.abs(view.cells[index])).length;
    readout.textContent = `${words[index].textContent} ${value(view.cells[index])} · place ${rank} of ${words.length} by weight`;
  };

  // The Tab key stops once in the text; arrow keys move inside.
  const move = (event) => {
    const index = words.indexOf(event.target);
    const turn = index >= 0 && getComputedStyle(words[index].parentElement).direction === "rtl" ? -1 : 1;
    const steps = { ArrowLeft: -turn, ArrowRight: turn, ArrowUp: -1, ArrowDown: 1, Home: -1e6, End: 1e6 };
    if (index < 0 || !steps[event.key]) return;
    event.preventDefault();
    stop.removeAttribute("tabindex");
    stop = words[Math.max(0, Math.min(words.length - 1, index + steps[event.key]))];
    stop.setAttribute("tabindex", "0");
    stop.focus();
  };

  let drawn = view.units;
  const drawWords = () => {
    drawn = view.units;
    words = data.words[drawn].map((name) => Object.assign(document.createElement("span"), { textContent: name }));
    article.querySelector(".text").replaceChildren(...words.flatMap((word) => [word, " "]));
    stop = words[0];
    stop?.setAttribute("tabindex", "0");
  };
  const choose = () => {
    view = data.views.find((x) => x.site === site.value && String(x.head) === head.value && x.units === units.value) ?? view;
    if (view.units !== drawn) drawWords();
    words.forEach((word, index) => {
      word.className = `word ${shade(view.cells[index])}`;
      word.classList.toggle("unknown", data.unknown[view.units].includes(index));
      word.title = value(view.cells[index]);
    });
    writeScale(article.querySelector(":scope > .legend"), view, view.top);
    const told = article.querySelector(":scope > .note > .told");
    if (told) told.textContent = view.told;
    readout.textContent = words.length ? "Hover or focus a word." : "";
  };
  const chooseSite = () => {
    const heads = data.views.filter((x) => x.site === site.value && x.units === drawn).map((x) => x.head);
    head.replaceChildren(...heads.map((x) => new Option(x === null ? "mean" : x, String(x))));
    head.parentElement.hidden = heads.length < 2;
    choose();
  };

  site.append(...[...new Set(data.views.map((x) => x.site))].map((x) => new Option(x, x)));
  site.parentElement.hidden = site.options.length < 2;
  article.querySelector(".choice").hidden = data.views.length < 2;
  units.append(...Object.keys(data.words).map((x) => new Option(x, x)));
  units.parentElement.hidden = units.options.length < 2;
  article.querySelector("select.texts").parentElement.hidden = true; // a classification has one text
  units.addEventListener("change", choose);
  site.addEventListener("change", chooseSite);
  head.addEventListener("change", choose);
  chooseSite();
  stop?.setAttribute("tabindex", "0");
  article.addEventListener("pointerover", show);
  article.addEventListener("focusin", show);
  article.addEventListener("keydown", move);
}
