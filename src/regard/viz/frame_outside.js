// Beside the frames, once in a notebook: sets the height of each frame, and tells the frame whether the notebook is dark.
if (window.regardFrames) {
  window.regardFrames(); // a further frame was added
} else {
  const frames = () => [...document.querySelectorAll("iframe.regard-record")];
  const channels = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
  const bright = ([red, green, blue]) => 0.2126 * red + 0.7152 * green + 0.0722 * blue > 127;
  // Use the first background behind the frame that is not transparent; if there is none, the colour of the text beside the frame.
  const theme = (frame) => {
    for (let each = frame.parentElement; each; each = each.parentElement) {
      const back = channels(getComputedStyle(each).backgroundColor);
      if (back.length === 3 || back[3] > 0.5) return bright(back) ? "light" : "dark";
    }
    return bright(channels(getComputedStyle(frame.parentElement).color)) ? "dark" : "light";
  };
  const tell = (frame) => frame.contentWindow.postMessage({ regardTheme: theme(frame) }, "*");
  const tellAll = () => frames().forEach(tell);
  window.regardFrames = tellAll;
  addEventListener("message", (event) => {
    const height = event.data && event.data.regardHeight;
    if (!(height > 0 && height < 20000)) return;
    for (const frame of frames())
      if (frame.contentWindow === event.source) {
        frame.style.height = height + "px";
        tell(frame);
      }
  });
  // A notebook changes its theme through an attribute, and some notebooks load the colours later.
  const changed = new MutationObserver(() => [0, 300, 1500].forEach((wait) => setTimeout(tellAll, wait)));
  for (const each of [document.documentElement, document.body]) changed.observe(each, { attributes: true });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tellAll);
  tellAll(); // a frame may have sent its height before
}
