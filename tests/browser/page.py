"""Opens a mail in a headless Chromium, and asks it what is really there: sizes, and the colours of every text."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import escape, unescape

CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
SCHEMES = {"light": 1, "dark": 0}
LOOK = """
<script>
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = [], beyond = [];
  for (const element of document.body.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || element.tagName === "SCRIPT") continue;
    if (box.right > innerWidth + 0.5) beyond.push(element.tagName + " " + box.right);
    const own = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join("");
    const style = getComputedStyle(element);
    if (!own || box.height < 2 || style.fontSize === "0px") continue;
    texts.push({ text: own.slice(0, 40), colour: style.color, ground: ground(element) });
  }
  const found = { texts, beyond, width: innerWidth, scroll: document.documentElement.scrollWidth,
                  loaded: performance.getEntriesByType("resource").length };
  parent.document.getElementById("found").textContent = JSON.stringify(found);
</script>
"""

FRAME = """<!doctype html><meta charset="utf-8"><pre id="found"></pre>
<iframe style="border:0;width:{width}px;height:900px" srcdoc="{mail}"></iframe>"""
"""A window has a least width, which a phone is narrower than; a frame has none. Its script may write into the page."""


@dataclass(frozen=True)
class Seen:
    """What a page showed."""

    width: int
    scroll: int
    loaded: int
    beyond: list
    texts: list


def look_at(html, folder, *, width, scheme):
    """Open a mail at this width and scheme, and return what is seen."""
    assert CHROMIUM is not None, "no Chromium: `make browser` installs it"
    page = folder / f"{width}-{scheme}.html"
    mail = escape(html.replace("</body>", LOOK + "</body>"))
    page.write_text(FRAME.format(width=width, mail=mail), encoding="utf-8")
    arguments = (
        *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"),
        *(f"--user-data-dir={folder / 'profile'}", "--window-size=1000,1000", "--dump-dom"),
        f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
    )
    done = subprocess.run(
        [CHROMIUM, *arguments, page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    found = re.search(r'<pre id="found">(.+?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return Seen(**json.loads(unescape(found[1])))


def hexadecimal(colour):
    """`rgb(1, 2, 3)` as `#010203`."""
    red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
    return f"#{red:02X}{green:02X}{blue:02X}"
