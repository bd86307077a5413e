"""JavaScript functions that `benchmarks.chat_page` runs in browser pages: record frames, scroll, wait for answers."""

IDLE = "() => new Promise((idle) => requestIdleCallback(() => idle()))"
WATCH = """
() => {
  window.__frames = [];
  window.__long = [];
  const frame = (time) => { window.__frames.push(time); requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  const note = (list) => window.__long.push(...list.getEntries().map((entry) => entry.blockingDuration));
  new PerformanceObserver(note).observe({ type: "long-animation-frame" });
}
"""
UNTIL_WRITTEN = """
() => new Promise((written) => {
  const look = () => { if (document.querySelector('article.answer[aria-busy="false"]')) written(); };
  new MutationObserver(look).observe(document.body, { subtree: true, attributeFilter: ["aria-busy"] });
})
"""
"""Resolves when the answer is complete, by an observer in the page: polling from outside would disturb the frames."""
SCROLL = """
([pixels, seconds]) => new Promise((scrolled) => {
  let box = document.querySelector("nav ul");
  while (box.scrollHeight <= box.clientHeight) box = box.parentElement;
  const end = performance.now() + 1000 * seconds;
  const step = (time) => {
    if (time >= end) return scrolled();
    box.scrollTop += pixels;
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})
"""
READ_ALL = """
([conversations, height]) => new Promise((read) => {
  let box = document.querySelector("nav ul");
  while (box.scrollHeight <= box.clientHeight) box = box.parentElement;
  const step = () => {
    if (box.scrollHeight >= conversations * height) return read(box.scrollTop = 0);
    box.scrollTop = box.scrollHeight;
    requestAnimationFrame(step);
  };
  step();
})
"""
