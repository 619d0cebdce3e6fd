"use strict";
// Images and sounds: weights as colours on the patches of an image, or below the wave of a sound.

// Return the colour of each shade as [red, green, blue], from the page's style, which knows the theme.
const shadeColours = (article, levels) => {
  const probe = article.appendChild(document.createElement("i"));
  const colours = {};
  for (const letter of "ab")
    for (let level = 0; level <= levels; level++) {
      probe.className = letter + level;
      colours[letter + level] = getComputedStyle(probe).backgroundColor.match(/\d+/g).slice(0, 3).map(Number);
    }
  probe.remove();
  return colours;
};
// Draw where a picture is darker or lighter than its surroundings, as viz/places.py does: fine lines, so that large dark areas
// do not look like large weights.
const drawLines = (canvas, picture) => {
  const [width, height] = [picture.naturalWidth, picture.naturalHeight];
  Object.assign(canvas, { width, height });
  const pen = canvas.getContext("2d");
  pen.drawImage(picture, 0, 0);
  const image = pen.getImageData(0, 0, width, height);
  const grey = new Float32Array(width * height);
  for (let i = 0; i < grey.length; i++)
    grey[i] = (0.299 * image.data[4 * i] + 0.587 * image.data[4 * i + 1] + 0.114 * image.data[4 * i + 2]) / 255;
  const radius = Math.max(1, Math.round(0.015 * Math.max(width, height)));
  // Return the mean of the values within the radius along each line of `length` values that are `step` apart.
  const blur = (values, count, next, length, step) => {
    const means = new Float32Array(values.length);
    for (let line = 0; line < count; line++) {
      const at = (index) => values[line * next + step * Math.max(0, Math.min(length - 1, index))];
      let sum = 0;
      for (let index = -radius; index < radius; index++) sum += at(index);
      for (let index = 0; index < length; index++) {
        sum += at(index + radius);
        means[line * next + step * index] = sum / (2 * radius + 1);
        sum -= at(index - radius);
      }
    }
    return means;
  };
  let near = grey;
  for (let pass = 0; pass < 2; pass++) near = blur(blur(near, height, width, width, 1), width, 1, height, width);
  for (let i = 0; i < grey.length; i++) {
    const difference = grey[i] - near[i];
    const tone = difference > 0 ? 255 : 0;
    image.data.set([tone, tone, tone, 255 * Math.min(0.2, Math.abs(difference))], 4 * i);
  }
  pen.putImageData(image, 0, 0);
};
// Write the ends of a colour bar; only views with negative values show its negative half.
const writeScale = (legend, view, top) => {
  const isSigned = view.cells.some((cell) => cell < 0);
  for (const shade of legend.querySelectorAll("i[class^=b]")) shade.hidden = !isSigned;
  legend.querySelector(".low").textContent = `weight ${isSigned ? `-${top}` : "0"}`;
  legend.querySelector(".top").textContent = top;
};
const whenThemeChanges = (draw) => {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
};

// The figures of an article. `select(side, index)` is called when a patch, a frame or the span of a word is pointed at.
const makeStage = (article, data, select) => {
  const figures = [...article.querySelectorAll(".stage figure")];
  if (!figures.length) return null;
  const over = article.querySelector("select.over");
  const hasPictures = figures.some((figure) => figure.querySelector("img"));
  let view;
  let spans = []; // those of the view's columns that are shown in figures
  let row = null;
  let colours = {};
  let marked = -1;
  let before; // the row that was shown before the pointer came to a figure
  let numWords = 0; // rows that are neither patches nor frames

  // With several words, none of which is chosen, an image is shown as it is.
  const isAtRest = () => row === null && numWords > 1;
  const width = (span) => data.figures[span.figure].columns ?? span.end - span.start;
  const numColumns = () => data.words[view.units][view.columns].length;
  const numRows = () => data.words[view.units][view.rows].length;
  const rowSpans = () => data.spans[view.units][view.rows].filter((span) => span.figure !== null);
  // Return the row of the patch of a column, if patches attend to patches in this view.
  const rowOf = (column) => {
    const span = find(column);
    const own = rowSpans().find((each) => each.figure === span?.figure);
    return own && own.start + column - span.start;
  };
  const find = (column) => spans.find((span) => span.start <= column && column < span.end);

  // Return the cells of a row, or of the mean of all rows if `of` is null.
  const cellsOf = (of, span) => {
    const line = (index) => view.cells.slice(index * numColumns() + span.start, index * numColumns() + span.end);
    if (of !== null) return line(of);
    const sum = line(0);
    for (let index = 1; index < numRows(); index++) line(index).forEach((cell, place) => (sum[place] += cell));
    return sum.map((cell) => cell / numRows());
  };

  const paint = (canvas, cells, span) => {
    if (!cells.length) return; // there are no words
    canvas.width = width(span);
    canvas.height = cells.length / canvas.width;
    const image = new ImageData(canvas.width, canvas.height);
    cells.forEach((cell, index) => {
      const share = Math.min(1, Math.abs(cell) / 10 ** view.places / view.onPlaces);
      const level = data.levels * share;
      const [low, high] = [Math.floor(level), Math.ceil(level)].map((each) => colours[(cell < 0 ? "b" : "a") + each]);
      const colour = low.map((channel, place) => channel + (level % 1) * (high[place] - channel));
      image.data.set([...colour, 255], 4 * index);
    });
    canvas.getContext("2d").putImageData(image, 0, 0);
    canvas.classList.toggle("smooth", over.value === "smooth");
  };

  const paintAll = () => {
    for (const span of spans) paint(figures[span.figure].querySelector(".heat"), cellsOf(row, span), span);
    for (const [index, canvases] of thumbs.entries())
      spans.forEach((span, place) => paint(canvases[place], cellsOf(index, span), span));
    look();
  };
  const look = () => {
    for (const figure of figures) {
      figure.dataset.over = isAtRest() && over.value !== "beside" && figure.querySelector("img") ? "image" : over.value;
    }
  };

  const paintWave = (span) => {
    const { wave, length, seconds } = data.figures[span.figure];
    const canvas = figures[span.figure].querySelector(".wave");
    const shown = (wave.length * (span.end - span.start)) / length;
    figures[span.figure].querySelector("figcaption").textContent =
      `${span.name}, 0 to ${((span.end - span.start) * seconds).toFixed(1)} seconds`;
    canvas.hidden = !wave.length;
    [canvas.width, canvas.height] = [1200, 120];
    const pen = canvas.getContext("2d");
    pen.fillStyle = getComputedStyle(canvas).color;
    pen.beginPath();
    for (const side of [-1, 1])
      for (let step = 0; step < shown; step++) {
        const place = side < 0 ? step : Math.ceil(shown) - 1 - step; // there along the top, and back along the bottom
        pen.lineTo((1200 * (place + 0.5)) / shown, 60 + side * Math.max(0.5, 58 * wave[place]));
      }
    pen.fill();
  };

  // Write each word at its time below the wave.
  const writeTimes = (span) => {
    const figure = figures[span.figure];
    const times = data.times[view.units][view.rows];
    const total = (span.end - span.start) * data.figures[span.figure].seconds;
    figure.querySelector(".times")?.remove();
    if (!times.length) return;
    const line = document.createElement("div");
    line.className = "times";
    line.setAttribute("aria-hidden", "true");
    times.forEach((time, index) => {
      if (!time) return;
      const word = document.createElement("span");
      word.textContent = word.title = data.words[view.units][view.rows][index];
      word.dataset.row = index;
      word.style.left = `${(100 * time[0]) / total}%`;
      word.style.width = `${(100 * (time[1] - time[0])) / total}%`;
      word.addEventListener("pointerover", () => select("row", index));
      line.append(word);
    });
    figure.querySelector(".under").after(line);
  };

  let thumbs = [];
  // Return small maps of the weights of a row, one for each figure, for its word.
  const thumb = (index) => {
    thumbs[index] = spans.map((span) => {
      const canvas = Object.assign(document.createElement("canvas"), { className: "thumb" });
      canvas.style.setProperty("--aspect", figures[span.figure].style.getPropertyValue("--aspect") || "9");
      return canvas;
    });
    return thumbs[index];
  };

  const draw = (shown) => {
    [view, row, marked] = [shown, null, -1];
    spans = data.spans[view.units][view.columns].filter((span) => span.figure !== null);
    const words = [...data.words[view.units][view.rows].keys()].filter(
      (index) => !rowSpans().some((span) => span.start <= index && index < span.end),
    );
    numWords = words.length;
    if (numWords === 1) [row] = words; // it needs no choice
    thumbs = [];
    colours = shadeColours(article, data.levels);
    article.querySelector(".looks").classList.toggle("empty", !spans.length);
    figures.forEach((figure, place) => {
      figure.hidden = !spans.some((span) => span.figure === place);
      figure.querySelector(".cursor").hidden = true;
    });
    for (const span of spans) {
      const { kind, rows, columns } = data.figures[span.figure];
      const figure = figures[span.figure];
      if (kind === "sound") {
        paintWave(span);
        writeTimes(span);
      } else {
        const image = figure.querySelector("img");
        figure.style.setProperty("--aspect", image ? image.getAttribute("width") / image.getAttribute("height") : columns / rows);
      }
    }
  };

  // Show the weights of a row, or the mean of all rows.
  const heat = (index) => {
    row = index;
    for (const span of spans) paint(figures[span.figure].querySelector(".heat"), cellsOf(row, span), span);
    look();
    for (const word of article.querySelectorAll(".times span")) word.classList.toggle("here", Number(word.dataset.row) === index);
  };

  const mark = (column) => {
    marked = column;
    for (const figure of figures) figure.querySelector(".cursor").hidden = true;
    const span = find(column);
    if (!span) return;
    const cursor = figures[span.figure].querySelector(".cursor");
    const across = width(span);
    const down = (span.end - span.start) / across;
    const [x, y] = [(column - span.start) % across, Math.floor((column - span.start) / across)];
    Object.assign(cursor.style, {
      left: `${(100 * x) / across}%`,
      top: `${(100 * y) / down}%`,
      width: `${100 / across}%`,
      height: `${100 / down}%`,
    });
    cursor.hidden = false;
  };

  const columnAt = (figure, event) => {
    const span = spans.find((each) => figures[each.figure] === figure);
    const box = figure.querySelector(".under").getBoundingClientRect();
    const [across, count] = [width(span), span.end - span.start];
    const part = (at, start, size, cells) => Math.max(0, Math.min(cells - 1, Math.floor(((at - start) / size) * cells)));
    const [x, y] = [part(event.clientX, box.left, box.width, across), part(event.clientY, box.top, box.height, count / across)];
    return span.start + y * across + x;
  };

  for (const figure of figures) {
    const picture = figure.querySelector("img");
    picture?.decode().then(() => drawLines(figure.querySelector(".lines"), picture));
    const under = figure.querySelector(".under");
    for (const kind of ["pointermove", "pointerdown"])
      under.addEventListener(kind, (event) => {
        const column = columnAt(figure, event);
        if (before === undefined) before = row;
        if (column !== marked) select("column", column);
      });
    under.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "touch") return; // a finger leaves when it is lifted
      const shown = before === undefined ? row : before;
      before = undefined;
      if (shown === null) heat(null);
      shown === null ? select("none") : select("row", shown);
    });
    const strongest = (span) => {
      const cells = cellsOf(row, span).map(Math.abs);
      return span.start + cells.indexOf(Math.max(...cells));
    };
    figure.addEventListener("focus", () => {
      if (figure.matches(":focus-visible")) select("column", strongest(spans.find((span) => figures[span.figure] === figure)));
    });
    figure.addEventListener("keydown", (event) => {
      const span = spans.find((each) => figures[each.figure] === figure);
      const across = width(span);
      const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, Home: -1e6, End: 1e6 };
      if (!steps[event.key]) return;
      event.preventDefault();
      event.stopPropagation();
      const from = find(marked) === span ? marked : strongest(span);
      const to = from + steps[event.key];
      if (Math.abs(steps[event.key]) === across && (to < span.start || to >= span.end)) return;
      select("column", Math.max(span.start, Math.min(span.end - 1, to)));
    });
  }
  over.parentElement.hidden = !hasPictures && figures.every((figure) => figure.classList.contains("sound"));
  for (const option of over.options) option.hidden = !hasPictures && (option.value === "beside" || option.value === "image");
  over.addEventListener("change", paintAll);
  whenThemeChanges(() => {
    colours = shadeColours(article, data.levels);
    for (const span of spans) if (data.figures[span.figure].kind === "sound") paintWave(span);
    paintAll();
  });
  return { draw, heat, mark, thumb, paintAll, rowOf, covers: (column) => find(column) !== undefined, isBare: () => !hasPictures };
};
