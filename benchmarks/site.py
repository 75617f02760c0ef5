"""The site, built strictly from docs/: how many pages, how large, what they embed.

python benchmarks/site.py
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent


def largest(files: list[Path]) -> str:
    """How many files there are, and the largest of them."""
    size, name = max((file.stat().st_size, file.stem) for file in files)
    return f"{len(files)}, the largest {size / 1e3:,.0f} kB ({name})"


def main() -> None:
    with TemporaryDirectory() as folder:
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
            cwd=ROOT,
            env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
            check=True,
        )
        took = time.perf_counter() - begun
        pages = list(Path(folder).rglob("*.html"))
        live = [page for page in pages if page.parent.name == "live"]
        reports = [page for page in live if 'id="plotly"' in page.read_text()]
        every = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        print(f"pages: {largest([page for page in pages if page not in live])}")
        print(f"players: {largest([page for page in live if page not in reports])}")
        print(f"reports of runs: {largest(reports)}")
        print(f"all of the site: {every / 1e6:.1f} MB, built without a warning in {took:.0f} s")


if __name__ == "__main__":
    main()
