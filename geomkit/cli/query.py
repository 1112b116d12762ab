"""Points from files, what a mesh says about them, and tables of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import geomkit
from geomkit.arrays import describe
from geomkit.errors import message
from geomkit.files import replacing
from geomkit.mesh import Mesh

WHAT = ("distance", "point", "face", "winding")
POINT_FORMATS = (".npy", ".npz", ".csv", ".txt", ".xyz")
TABLE_FORMATS = (".npz", ".csv")


def parse_what(text: str) -> list[str]:
    """The names in a list with commas.

    Raises:
        ValueError: one of them is unknown, or there is none.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in WHAT]
    if unknown or not names:
        raise ValueError(message("query", "what", f"some of {', '.join(WHAT)}", repr(text)))
    return names


def read_points(path: Path) -> np.ndarray:
    """Points of a file.

    Args:
        path: .npy: an (N, 3) array. .npz: its array `points`, or its only one. .csv: commas between the numbers, and a
            line of names or none; the columns x, y, z, or the first three. .txt, .xyz: blanks between the numbers; the
            first three of each line, or as in .csv. What follows a # is left out.

    Returns:
        (N, 3), float64 from text.

    Raises:
        FileNotFoundError: no such file.
        ValueError: an ending of no known format, or a file that is not of it.
    """
    extension = path.suffix.lower()
    if extension not in POINT_FORMATS:
        raise ValueError(message("query", "POINTS", f"a file name ending in {', '.join(POINT_FORMATS)}", str(path)))
    if extension not in (".npy", ".npz"):
        return _read_text(path, "," if extension == ".csv" else None)
    with path.open("rb") as file:
        try:
            found = _read_arrays(file, path)
        except MisfitError:
            raise
        except Exception as error:
            # NumPy and zipfile raise whatever their parsers happen to raise: BadZipFile, EOFError, zlib.error...
            got = f"{path} ({type(error).__name__}: {error})"
            raise ValueError(message("query", "POINTS", f"a valid {extension} file", got)) from error
    if found.ndim != 2 or found.shape[1] != 3 or found.dtype.kind not in "fiu":
        raise ValueError(message("query", "POINTS", "(N, 3) numbers", f"{describe(found)} in {path}"))
    return found


class MisfitError(ValueError):
    """A file of arrays that is valid, and not what is asked for."""


def _read_arrays(file: BinaryIO, path: Path) -> np.ndarray:
    found = np.load(file)
    if isinstance(found, np.ndarray) != (path.suffix.lower() == ".npy"):
        kind = "one array: a .npy file" if isinstance(found, np.ndarray) else "named arrays: a .npz file"
        raise MisfitError(message("query", "POINTS", f"a valid {path.suffix.lower()} file", f"{path}, which is {kind}"))
    if isinstance(found, np.ndarray):
        return found
    with found:
        if "points" not in found and len(found.files) != 1:
            names = ", ".join(found.files) if found.files else "none"
            raise MisfitError(message("query", "POINTS", "an array named points", f"{names} in {path}"))
        return found["points" if "points" in found else found.files[0]]


def _read_text(path: Path, delimiter: str | None) -> np.ndarray:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(message("query", "POINTS", "a text file in UTF-8", f"{path} ({error})")) from error
    lines = [(number, line.partition("#")[0]) for number, line in enumerate(text.split("\n"), 1)]
    lines = [(number, line) for number, line in lines if line.strip()]
    columns = [0, 1, 2]
    if lines:
        cells = [cell.strip() for cell in lines[0][1].split(delimiter)]
        if not any(map(_is_number, cells)):
            columns = _columns(cells, path, *lines.pop(0))
    if not lines:
        return np.empty((0, 3))
    try:
        return np.loadtxt([line for _, line in lines], delimiter=delimiter, usecols=columns, ndmin=2)
    except ValueError as error:
        number, line = next((at for at in lines if not _has_numbers(at[1], delimiter, columns)), lines[0])
        got = f"{line.strip()!r} in line {number} of {path}"
        raise ValueError(message("query", "POINTS", "three numbers a line", got)) from error


def _columns(cells: list[str], path: Path, number: int, line: str) -> list[int]:
    """Where x, y and z are, by a line of names."""
    names = [cell.strip('"').strip().lower() for cell in cells]
    if any(names.count(axis) != 1 for axis in "xyz"):
        expected = "three numbers, or the names x, y and z once each"
        got = f"{line.strip()!r} in line {number} of {path}"
        raise ValueError(message("query", "POINTS", expected, got))
    return [names.index(axis) for axis in "xyz"]


def _has_numbers(line: str, delimiter: str | None, columns: list[int]) -> bool:
    cells = line.split(delimiter)
    return len(cells) > max(columns) and all(_is_number(cells[k]) for k in columns)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def answer(mesh: Mesh, points: np.ndarray, what: list[str], sign: str) -> dict[str, Any]:
    """What is asked, by name and in that order.

    Args:
        mesh: the mesh.
        points: (N, 3).
        what: names out of WHAT.
        sign: of the distance, as in `geomkit.signed_distance`.

    Returns:
        distance (N,), point (N, 3), face (N,) int32, winding_number (N,): those asked for.
    """
    found: dict[str, Any] = {}
    if "distance" in what:
        found["distance"] = geomkit.signed_distance(mesh, points, sign=sign)
    if "point" in what or "face" in what:
        closest = geomkit.closest_point(mesh, points)
        found["point"], found["face"] = closest.point, closest.face
    if "winding" in what:
        found["winding"] = geomkit.winding_number(mesh, points)
    return {"winding_number" if name == "winding" else name: found[name] for name in what}


def table_format(path: Path) -> str:
    """The format that a file name asks for.

    Raises:
        ValueError: none that is known.
    """
    if path.suffix.lower() not in TABLE_FORMATS:
        raise ValueError(message("query", "output", f"a file name ending in {', '.join(TABLE_FORMATS)}", str(path)))
    return path.suffix.lower()


def write_table(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Write arrays of N rows as .npz, or as .csv with a line of names; `point` becomes point_x, point_y and point_z.

    Raises:
        ValueError: another ending.
        OSError: the folder does not exist or cannot be written to.
    """
    extension = table_format(path)
    with replacing(path) as file:
        if extension == ".npz":
            np.savez(file, **columns)  # pyright: ignore[reportArgumentType]
            return
        names, formats, values = [], [], []
        for name, array in columns.items():
            digits = "%d" if array.dtype.kind == "i" else "%.9g" if array.dtype == np.float32 else "%.17g"
            for k in range(array.shape[1] if array.ndim == 2 else 1):
                names.append(f"{name}_{'xyz'[k]}" if array.ndim == 2 else name)
                formats.append(digits)
                values.append((array[:, k] if array.ndim == 2 else array).tolist())
        row = ",".join(formats) + "\n"
        file.write((",".join(names) + "\n").encode())
        file.writelines((row % numbers).encode() for numbers in zip(*values, strict=True))
