"""The rules of the house: what imports what, what is documented, what lies under what."""

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import geomkit as gk
from geomkit.autodiff.primitive import Primitive

ROOT = Path(__file__).parents[1]
PYTHON = sorted((ROOT / "geomkit").rglob("*.py"))
KERNELS = sorted((ROOT / "cuda" / "kernels").rglob("*.cu"))
CPP = sorted(path for path in (ROOT / "cuda").rglob("*") if path.suffix in (".cu", ".h", ".cpp"))
OURS = PYTHON + CPP + sorted((ROOT / "tests").rglob("*.py")) + sorted((ROOT / "data").rglob("*.py"))

# Each layer imports only from those before it and from itself.
LAYERS = [
    ("errors", "tensors", "arrays", "files"),
    ("runtime",),
    ("autodiff",),
    ("mesh",),
    ("spatial",),
    ("implicit",),
    ("lang",),
    ("render",),
    ("inverse",),
    ("compat",),
    ("cli", "bench"),
]
RANK = {name: i for i, layer in enumerate(LAYERS) for name in layer}
CPP_LAYERS = ["core", "geometry", "spatial", "implicit", "render", "lang", "kernels", "host"]

# Imports that go right, and why.
RIGHTWARD = {("mesh/mesh.py", "spatial"): "Mesh.bvh makes the tree when first asked for it"}

# Forward kernels without an adjoint of their own name under them, and why.
NO_ADJOINT = {
    "all_hits_fwd": "cast_rays has the gradient of a hit",
    "contains_fwd": "the answer is discrete",
    "count_hits_fwd": "the answer is discrete",
    "count_neighbors_fwd": "the answer is discrete",
    "exact_winding_number_fwd": "both methods have the derivative of the exact value: winding_number_*_adj",
    "list_neighbors_fwd": "the answer is discrete",
    "occluded_fwd": "the answer is discrete",
}

HEAVY = ("cupy", "torch", "jax")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every module that a file imports, and whether at import time."""
    tree = ast.parse(path.read_text())
    late = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, id(node) not in late
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, id(node) not in late
            for name in node.names if node.module == "geomkit" else ():
                yield f"geomkit.{name.name}", id(node) not in late


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_imports_go_left(path):
    inside = path.relative_to(ROOT / "geomkit")
    own = inside.parts[0].removesuffix(".py")
    if own in ("__init__", "__main__"):
        return
    assert own in RANK, f"{own} is in no layer"
    for module, _ in imports(path):
        package, _, rest = module.partition(".")
        if package != "geomkit":
            continue
        if not rest or rest.split(".")[0] not in RANK:
            assert RANK[own] == len(LAYERS) - 1, f"{inside} imports the front door"
        elif (inside.as_posix(), rest.split(".")[0]) not in RIGHTWARD:
            assert RANK[rest.split(".")[0]] <= RANK[own], f"{inside} imports {module}, which is to its right"


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_only_runtime_knows_ctypes_and_nobody_imports_heavy_packages_at_once(path):
    for module, at_once in imports(path):
        root = module.partition(".")[0]
        assert root != "ctypes" or path.parent.name == "runtime"
        assert not (at_once and root in HEAVY), f"{module} at import time"


def test_importing_geomkit_is_light():
    heavy = (*HEAVY, "scipy", "trimesh", "matplotlib", "rich", "typer")
    program = f"import sys, geomkit; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("path", CPP, ids=relative)
def test_includes_go_left(path):
    inside = path.relative_to(ROOT / "cuda")
    rank = CPP_LAYERS.index(inside.parts[0])
    for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.MULTILINE):
        assert not name.endswith(".cu"), f"{inside} includes a kernel"
        other = (path.parent / name).resolve().relative_to(ROOT / "cuda")
        assert CPP_LAYERS.index(other.parts[0]) <= rank, f"{inside} includes {other}, which is to its right"


@pytest.mark.parametrize("path", [p for p in CPP if p.parent.name != "host"], ids=relative)
def test_kernels_are_freestanding(path):
    assert not re.findall(r"^\s*#\s*include\s*<", path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", KERNELS, ids=relative)
def test_an_adjoint_lies_under_every_forward(path):
    names = re.findall(r"^GK_KERNEL (\w+)\(", path.read_text(), re.MULTILINE)
    for i, name in enumerate(names):
        if name.endswith("_fwd") and name not in NO_ADJOINT:
            stem = name.removesuffix("_fwd")
            assert any(re.fullmatch(rf"{stem}(_\w+)?_adj", under) for under in names[i + 1 :]), f"{name} has no adjoint"


def test_exceptions_exist():
    names = {name for path in KERNELS for name in re.findall(r"^GK_KERNEL (\w+)\(", path.read_text(), re.MULTILINE)}
    assert set(NO_ADJOINT) <= names
    assert all((ROOT / "geomkit" / file).exists() for file, _ in RIGHTWARD)


@pytest.mark.parametrize("name", sorted(Primitive.registry))
def test_primitives_have_an_adjoint_or_say_that_they_have_none(name):
    primitive = Primitive.registry[name]
    if not primitive.differentiable:
        assert primitive._adjoint is None and not primitive.outputs and primitive.reason
        return
    given = set(inspect.signature(primitive.adjoint).parameters)
    assert {f"adj_{output}" for output in primitive.outputs} <= given
    assert set(inspect.signature(primitive.forward).parameters) <= given
    assert primitive.adjoint.__doc__


# ---- documentation


def door() -> dict[str, object]:
    """Public functions and primitives by name: those of `geomkit`, their adjoints, and the shapes."""
    found = {name: value for name, value in vars(gk).items() if not name.startswith("_") and callable(value)}
    found |= {f"shapes.{name}": getattr(gk.shapes, name) for name in gk.shapes.__all__}
    found |= {f"{name}.adjoint": p.adjoint for name, p in Primitive.registry.items() if p.differentiable}
    return {name: value for name, value in found.items() if not inspect.isclass(value)}


DOOR = door()
SECTION = re.compile(r"^ *(Args|Returns|Gradients|Raises|Warns|Attributes|Cost|Source|Example):", re.MULTILINE)


def sections(function: object) -> dict[str, str]:
    text = inspect.getdoc(function) or ""
    parts = SECTION.split(text)
    return {"summary": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


@pytest.mark.parametrize("name", DOOR)
def test_public_functions_are_documented(name):
    function, parts = DOOR[name], sections(DOOR[name])
    signature = inspect.signature(function)
    assert parts["summary"].strip().splitlines()[0].endswith((".", ":")) or "\n\n" in parts["summary"]
    for parameter in signature.parameters:
        assert re.search(rf"\b{parameter}\b[\w, ]*:", parts.get("Args", "")), f"Args does not say what {parameter} is"
    returns = signature.return_annotation
    assert "Returns" in parts or returns in (None, "None") or name.startswith("shapes.") or not signature.parameters
    assert "Raises" in parts or not signature.parameters
    if isinstance(function, Primitive):
        assert "Gradients" in parts and "Cost" in parts


@pytest.mark.parametrize("name", DOOR)
def test_public_functions_are_annotated(name):
    signature = inspect.signature(DOOR[name])
    assert signature.return_annotation is not signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not parameter.empty, parameter.name


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_modules_and_their_public_names_are_documented_and_annotated(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "no docstring"
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"
        foreign = any(ast.unparse(d).startswith(("wp.", "ti.")) for d in getattr(node, "decorator_list", ()))
        # (Kernels of Warp and Taichi return nothing and can't say so.)
        if isinstance(node, ast.FunctionDef) and not foreign:
            given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            assert node.returns is not None and all(a.annotation for a in given), f"{node.name} lacks annotations"


def test_the_door_names_classes_that_are_documented():
    for name, value in vars(gk).items():
        if inspect.isclass(value):
            assert inspect.getdoc(value), name


# ---- files


@pytest.mark.parametrize("path", OURS, ids=relative)
def test_files_are_short_and_finished(path):
    lines = path.read_text().splitlines()
    assert len(lines) <= 500
    words = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")
    assert not [line for line in lines if any(re.search(rf"\b{word}\b", line) for word in words)]


def test_typed_marker_ships():
    assert (ROOT / "geomkit" / "py.typed").exists()
