"""The house in order: short functions, no imports in circles, layers that hold."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import steptime

SOURCE = Path(steptime.__file__).parent
LONGEST = 60
FILES = sorted(SOURCE.rglob("*.py"))


def modules() -> dict[str, Path]:
    """The files of the package by the names under which they are imported."""
    names = {
        path: ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in FILES
    }
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        f"{path.relative_to(SOURCE)} {one.name}"
        for path in FILES
        for one in functions(ast.parse(path.read_text(encoding="utf-8")))
        if one.end_lineno is not None and one.end_lineno - one.lineno + 1 > LONGEST
    }
    assert long == set()


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """What a module imports of ours, itself or in its functions; not what only hints need."""
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hints = [
        node
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    ]
    for node in set(ast.walk(tree)) - set(hints):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            of_module = {f"{node.module}.{alias.name}" for alias in node.names} & known.keys()
            found |= of_module or {node.module} & known.keys()
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & known.keys()
    return found


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, or none; packages are what they export."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        stack = [(start, iter(sorted(graph[start])))]
        while stack:
            module, following = stack[-1]
            if module not in path:
                path.append(module)
            other = next(following, None)
            if other is None:
                done.add(module)
                path.pop()
                stack.pop()
            elif other in path:
                return [*path[path.index(other) :], other]
            elif other not in done:
                stack.append((other, iter(sorted(graph[other]))))
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = modules()
    graph = {name: imported(path, known) - {name} for name, path in known.items()}
    for name, path in known.items():
        if path.name == "__init__.py":  # a package gathers its modules, which may import its others
            graph[name] = {other for other in graph[name] if not other.startswith(f"{name}.")}
    assert circle(graph) == []


@pytest.mark.timeout(300)
def test_packages_import_from_lower_layers_only() -> None:
    root = SOURCE.parent.parent
    if not (root / "pyproject.toml").exists():
        pytest.skip("the layers are written down in a checkout's pyproject.toml")
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-cache"], cwd=root, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
