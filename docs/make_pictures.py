"""Make the pictures of what the site embeds: players and reports, as they open.

``python docs/make_pictures.py`` draws each with Chromium into docs/pictures, for who reads the
pages elsewhere than in the site.
"""

import shutil
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from hooks import embedded
from PIL import Image
from playwright.sync_api import Page, sync_playwright

DOCS = Path(__file__).parent
PICTURES = DOCS / "pictures"
SIZE = (1000, 900)  # pixels
COLOURS = 64  # which keep text sharp and a picture within 100 kB
ROUNDS = 5  # that a player has played


def shot(page: Page, html: Path) -> Image.Image:
    """A picture of a page as it opens, a player in the midst of its rounds."""
    page.goto(html.as_uri())
    page.wait_for_timeout(3000)  # ms; figures are drawn one after the other
    for _ in range(ROUNDS):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(1000)
    return Image.open(BytesIO(page.screenshot())).convert("RGB")


def main() -> None:
    """Make all pictures."""
    made = {
        name: html
        for page in sorted(DOCS.rglob("*.md"))
        for name, html in embedded(page.read_text()).items()
    }
    width, height = SIZE
    with sync_playwright() as started, TemporaryDirectory() as folder:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        for name, html in made.items():
            file = Path(folder, f"{name}.html")
            file.write_text(html, encoding="utf-8")
            picture = shot(page, file).quantize(COLOURS, dither=Image.Dither.NONE)
            picture.save(PICTURES / f"{name}.png", optimize=True)
            print(f"{name}.png")


if __name__ == "__main__":
    main()
