"""Opens the page of a report in headless Chromium: no script error, all marks drawn, in both colours;
and does there what a reader does."""

import glob
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
OF_PLAYWRIGHT = "~/.cache/ms-playwright/chromium*/chrome-linux*/*"

# What a reader does; `said` is what came of it.
READER = """
const said = {}, $ = id => document.getElementById(id);
const shown = () => rows.filter(row => !row.hidden).map(row => lines[row.dataset.line].label);
const groups = () => [...document.querySelectorAll(".rows")].filter(g => !g.hidden)
  .map(g => g.querySelector("h3").textContent);
const order = () => [...document.querySelectorAll(".rows:not([hidden]) tbody tr:not([hidden])")]
  .map(row => lines[row.dataset.line].label);
const type = (id, value, event) => { $(id).value = value; $(id).dispatchEvent(new Event(event)); };
said.groups = groups();
type("search", "NORM bf16", "input");
said.found = shown();
said.foundGroups = groups();
said.count = $("found").textContent;
said.dimmed = document.querySelectorAll("#charts .dim").length > 0;
type("search", "", "input");
type("direction", "backward", "change");
said.backward = shown();
type("direction", "", "change");
type("grouping", "flat", "change");
said.flat = groups();
const speedUp = document.querySelectorAll(".flat thead button")[4];
speedUp.click();
said.rising = order();
speedUp.click();
said.falling = order();
said.sorted = speedUp.closest("th").getAttribute("aria-sort");
type("grouping", "", "change");
said.again = groups();
$("fold").click();
said.folded = document.querySelectorAll(".rows[open]").length;
window.dispatchEvent(new Event("beforeprint"));
said.printed = document.querySelectorAll(".rows:not([open])").length;
window.dispatchEvent(new Event("afterprint"));
said.afterwards = document.querySelectorAll(".rows[open]").length;
const plot = document.querySelector(".plot"), svg = plot.querySelector("svg");
const tip = plot.querySelector(".tip");
const box = svg.getBoundingClientRect();
for (const mark of svg.querySelectorAll("circle.chosen")) {
  const at = { clientX: box.left + Number(mark.getAttribute("cx")) + 1,
               clientY: box.top + Number(mark.getAttribute("cy")) + 1, bubbles: true };
  svg.dispatchEvent(new PointerEvent("pointermove", { ...at, pointerType: "mouse" }));
  (said.named ??= []).push([lines[mark.dataset.line].label, tip.firstChild.textContent]);
}
svg.dispatchEvent(new PointerEvent("pointerleave"));
said.left = tip.hidden;
const mark = svg.querySelector("circle.chosen");
svg.dispatchEvent(new MouseEvent("click", { clientX: box.left + Number(mark.getAttribute("cx")),
  clientY: box.top + Number(mark.getAttribute("cy")), bubbles: true }));
svg.dispatchEvent(new PointerEvent("pointerleave"));
said.kept = !tip.hidden && tip.querySelector("a").getAttribute("href");
said.link = `#line-${mark.dataset.line}`;
const press = key => plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
plot.focus();
press("End");
said.last = tip.firstChild.textContent;
press("Enter");
said.opened = document.querySelector("tr.found details[open] summary").textContent;
said.unfolded = document.querySelector("tr.found").closest(".group").open;
said.focused = document.activeElement.textContent;
document.body.dataset.said = JSON.stringify(said);
"""


def browser():
    for name in NAMES:
        if shutil.which(name):
            return name
    found = [path for path in glob.glob(os.path.expanduser(OF_PLAYWRIGHT))
             if os.path.basename(path) in ("chrome", "headless_shell", "chrome-headless-shell")]
    return found[0] if found else None


@unittest.skipUnless(browser(), f"none of {', '.join(NAMES)}, nor playwright's, is on this machine")
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-page-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.page = cls.folder / "report.html"
        subprocess.run([os.environ["REPORT_TESTS"], "--gtest_filter=Report.Page"], check=True,
                       env={**os.environ, "REPORT_PAGE": str(cls.page)}, capture_output=True)

    def run_browser(self, page, *options):
        done = subprocess.run(
            [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={self.folder}/profile",
             "--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000", *options,
             page.as_uri()], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    def open(self, page, *options):
        """What the page became, and what its script complained about."""
        return self.run_browser(page, *options, "--dump-dom")

    def count(self, page, mark):
        return len(re.findall(f'data-mark="{mark}"', page))

    def test_marks_are_drawn(self):
        for options in ([], ["--blink-settings=preferredColorScheme=0"], ["--window-size=390,800"]):
            page, complaints = self.open(self.page, *options)
            self.assertEqual(complaints, [])
            self.assertIn('data-drawn="2"', page)
            # Five keys: three with times and bytes, one with a copy, three with a search.
            self.assertEqual(self.count(page, "chosen"), 3)
            self.assertEqual(self.count(page, "default"), 3)
            self.assertEqual(self.count(page, "copy"), 1)
            self.assertEqual(self.count(page, "best"), 3)
            self.assertEqual(len(re.findall('class="bars"', page)), 3)
            self.assertNotIn("NaN", page)
            for svg in re.findall(r"<svg[^>]*>", page):
                if "aria-hidden" not in svg:
                    self.assertIn('role="img"', svg)
                    self.assertRegex(svg, "aria-label(ledby)?=")

    def test_a_reader(self):
        acted = self.folder / "acted.html"
        acted.write_text(self.page.read_text().replace("</body>",
                                                       f"<script>{READER}</script></body>"))
        page, complaints = self.open(acted)
        self.assertEqual(complaints, [])
        said = json.loads(html.unescape(re.search('data-said="([^"]*)"', page).group(1)))
        forward, backward = "layer_norm 64x128 bf16", "layer_norm 64x128 bf16 backward"
        evil = '</script><script>fail()</script>|a, "b"'
        self.assertEqual(said["groups"], [evil.split()[0], "gate", "layer_norm",
                                          "layer_norm, backward", "softmax"])
        self.assertEqual(said["found"], [forward, backward])
        self.assertEqual(said["foundGroups"], ["layer_norm", "layer_norm, backward"])
        self.assertEqual(said["count"], "2 of 5 kernels")
        self.assertTrue(said["dimmed"])
        self.assertEqual(said["backward"], [backward])
        self.assertEqual(said["flat"], ["all kernels"])
        # Speed-ups of 1.05 and 1.25; what is not known is last.
        self.assertEqual(said["rising"][:2], ["softmax 8x8", forward])
        self.assertEqual(said["falling"][:2], [forward, "softmax 8x8"])
        self.assertEqual(set(said["rising"][2:]), set(said["falling"][2:]))
        self.assertEqual(said["sorted"], "descending")
        self.assertEqual(said["again"], said["groups"])
        self.assertEqual((said["folded"], said["printed"], said["afterwards"]), (0, 0, 0))
        self.assertEqual(len(said["named"]), 3)
        for label, named in said["named"]:
            self.assertEqual(label, named)
        self.assertTrue(said["left"])
        self.assertEqual(said["kept"], said["link"])
        self.assertEqual(said["last"], said["opened"])
        self.assertEqual(said["focused"], said["opened"])
        self.assertTrue(said["unfolded"])

    def test_paper(self):
        paper = self.folder / "report.pdf"
        self.run_browser(self.page, f"--print-to-pdf={paper}")
        self.assertTrue(paper.read_bytes().startswith(b"%PDF"))

    def test_errors_would_be_seen(self):
        broken = self.folder / "broken.html"
        broken.write_text(self.page.read_text().replace("rows = lines.map", "rows = line.map"))
        page, complaints = self.open(broken)
        self.assertTrue(complaints)
        self.assertNotIn("data-drawn", page)


if __name__ == "__main__":
    unittest.main()
