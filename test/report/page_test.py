"""Opens the page of a report in headless Chromium: no script error, all marks drawn, in both colours."""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
OF_PLAYWRIGHT = "~/.cache/ms-playwright/chromium*/chrome-linux*/*"


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

    def open(self, page, *options):
        """What the page became, and what its script complained about."""
        done = subprocess.run(
            [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={self.folder}/profile",
             "--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000", *options,
             "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    def count(self, page, mark):
        return len(re.findall(f'data-mark="{mark}"', page))

    def test_marks_are_drawn(self):
        for colours in ([], ["--force-dark-mode"]):
            page, complaints = self.open(self.page, *colours)
            self.assertEqual(complaints, [])
            self.assertIn('data-drawn="3"', page)
            # Four keys: three with times and bytes, one with a copy, three with a search.
            self.assertEqual(self.count(page, "chosen"), 3)
            self.assertEqual(self.count(page, "default"), 3)
            self.assertEqual(self.count(page, "copy"), 1)
            self.assertEqual(self.count(page, "best"), 3)
            self.assertEqual(self.count(page, "default-bar"), 3)
            self.assertEqual(self.count(page, "vendor"), 2)
            self.assertNotIn("NaN", page)
            for svg in re.findall(r"<svg[^>]*>", page):
                self.assertIn('role="img"', svg)
                self.assertIn("aria-describedby", svg)

    def test_errors_would_be_seen(self):
        broken = self.folder / "broken.html"
        broken.write_text(self.page.read_text().replace("const lines =", "const rows ="))
        page, complaints = self.open(broken)
        self.assertTrue(complaints)
        self.assertNotIn("data-drawn", page)


if __name__ == "__main__":
    unittest.main()
