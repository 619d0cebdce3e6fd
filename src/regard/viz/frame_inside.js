// In the frame: tells the notebook the page's height, and applies the notebook's theme.
(() => {
  const page = document.documentElement.dataset;
  const tell = () => {
    const height = Math.max(document.body.getBoundingClientRect().height, document.body.scrollHeight);
    parent.postMessage({ regardHeight: Math.ceil(height), regardShows: page.theme }, "*");
  };
  addEventListener("message", (event) => {
    const theme = event.data && event.data.regardTheme;
    if ((theme !== "light" && theme !== "dark") || theme === page.theme) return;
    page.theme = theme;
    tell(); // also because the first message may have been sent before the notebook listened
  });
  new ResizeObserver(tell).observe(document.body);
  addEventListener("load", tell);
  tell();
})();
