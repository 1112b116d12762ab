"""Tables of numbers from files, and into files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from geomkit.arrays import describe
from geomkit.errors import message
from geomkit.files import replacing

TABLE_FORMATS = (".npz", ".csv")
SUFFIXES = {2: "uv", 3: "xyz"}  # of the columns of an array of so many
WORDS = {3: "three", 6: "six"}


@dataclass(frozen=True)
class Reader:
    """What a file of rows of numbers holds, and how to call it in messages.

    Attributes:
        op: the command.
        argument: its argument.
        columns: the names of the numbers in a row.
        arrays: the names of the arrays that hold them, side by side, in a .npz file.
        formats: endings of files that are read.
    """

    op: str
    argument: str
    columns: tuple[str, ...]
    arrays: tuple[str, ...]
    formats: tuple[str, ...] = (".npy", ".npz", ".csv", ".txt")

    def read(self, path: Path) -> np.ndarray:
        """The rows of a file.

        Args:
            path: .npy: an (N, columns) array. .npz: its arrays of the names given, or its only one. .csv: commas
                between the numbers, and a line of names or none; the columns of the names given, or the first ones.
                Other text: blanks between the numbers; the first ones of each line, or as in .csv. What follows a # is
                left out.

        Returns:
            (N, columns), float64 from text.

        Raises:
            FileNotFoundError: no such file.
            ValueError: an ending of no known format, or a file that is not of it.
        """
        extension = path.suffix.lower()
        if extension not in self.formats:
            raise self._refuse(f"a file name ending in {', '.join(self.formats)}", str(path))
        if extension not in (".npy", ".npz"):
            return self._read_text(path, "," if extension == ".csv" else None)
        with path.open("rb") as file:
            try:
                return self._read_arrays(file, path)
            except MisfitError:
                raise
            except Exception as error:
                # NumPy and zipfile raise whatever their parsers happen to raise: BadZipFile, EOFError, zlib.error...
                got = f"{path} ({type(error).__name__}: {error})"
                raise self._refuse(f"a valid {extension} file", got) from error

    def _refuse(self, expected: str, got: str) -> MisfitError:
        return MisfitError(message(self.op, self.argument, expected, got))

    def _read_arrays(self, file: BinaryIO, path: Path) -> np.ndarray:
        found = np.load(file)
        if isinstance(found, np.ndarray) != (path.suffix.lower() == ".npy"):
            kind = "one array: a .npy file" if isinstance(found, np.ndarray) else "named arrays: a .npz file"
            raise self._refuse(f"a valid {path.suffix.lower()} file", f"{path}, which is {kind}")
        n = len(self.columns)
        if isinstance(found, np.ndarray):
            return self._checked(found, n, "", path)
        with found:
            if all(name in found for name in self.arrays):
                parts = [self._checked(found[name], n // len(self.arrays), name, path) for name in self.arrays]
                if len({len(part) for part in parts}) > 1:
                    got = f"{' and '.join(str(len(part)) for part in parts)} in {path}"
                    raise self._refuse(f"as many {' as '.join(self.arrays)}", got)
                return np.concatenate(parts, axis=1)
            if len(found.files) == 1:
                return self._checked(found[found.files[0]], n, found.files[0], path)
            wanted = f"an array named {self.arrays[0]}"
            if len(self.arrays) > 1:
                wanted = f"arrays named {' and '.join(self.arrays)}"
            raise self._refuse(wanted, f"{', '.join(found.files) if found.files else 'none'} in {path}")

    def _checked(self, array: np.ndarray, n: int, name: str, path: Path) -> np.ndarray:
        if array.ndim != 2 or array.shape[1] != n or array.dtype.kind not in "fiu":
            where = f"{name} of {path}" if name else str(path)
            raise self._refuse(f"(N, {n}) numbers", f"{describe(array)} in {where}")
        return array

    def _read_text(self, path: Path, delimiter: str | None) -> np.ndarray:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise self._refuse("a text file in UTF-8", f"{path} ({error})") from error
        lines = [(number, line.partition("#")[0]) for number, line in enumerate(text.split("\n"), 1)]
        lines = [(number, line) for number, line in lines if line.strip()]
        columns = list(range(len(self.columns)))
        if lines:
            cells = [cell.strip() for cell in lines[0][1].split(delimiter)]
            if not any(map(_is_number, cells)):
                columns = self._places(cells, path, *lines.pop(0))
        if not lines:
            return np.empty((0, len(columns)))
        try:
            return np.loadtxt([line for _, line in lines], delimiter=delimiter, usecols=columns, ndmin=2)
        except ValueError as error:
            number, line = next((at for at in lines if not _has_numbers(at[1], delimiter, columns)), lines[0])
            got = f"{line.strip()!r} in line {number} of {path}"
            raise self._refuse(f"{WORDS[len(columns)]} numbers a line", got) from error

    def _places(self, cells: list[str], path: Path, number: int, line: str) -> list[int]:
        """Where the columns are, by a line of names."""
        names = [cell.strip('"').strip().lower() for cell in cells]
        if any(names.count(name) != 1 for name in self.columns):
            wanted = f"{', '.join(self.columns[:-1])} and {self.columns[-1]}"
            got = f"{line.strip()!r} in line {number} of {path}"
            raise self._refuse(f"{WORDS[len(self.columns)]} numbers, or the names {wanted} once each", got)
        return [names.index(name) for name in self.columns]


class MisfitError(ValueError):
    """A file that holds something else than what is asked for."""


def _has_numbers(line: str, delimiter: str | None, columns: list[int]) -> bool:
    cells = line.split(delimiter)
    return len(cells) > max(columns) and all(_is_number(cells[k]) for k in columns)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def parse_what(op: str, text: str, known: Iterable[str]) -> list[str]:
    """The names in a list with commas.

    Args:
        op: the command, for messages.
        text: the list.
        known: the names there are.

    Raises:
        ValueError: one of them is unknown, or there is none.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or set(names) - set(known):
        raise ValueError(message(op, "what", f"some of {', '.join(known)}", repr(text)))
    return list(dict.fromkeys(names))


def table_format(op: str, path: Path) -> str:
    """The format that the name of a command's output asks for.

    Raises:
        ValueError: none that is known.
    """
    if path.suffix.lower() not in TABLE_FORMATS:
        raise ValueError(message(op, "output", f"a file name ending in {', '.join(TABLE_FORMATS)}", str(path)))
    return path.suffix.lower()


def write_table(op: str, path: Path, columns: dict[str, Any]) -> None:
    """Write arrays of N rows as .npz, or as .csv with a line of names.

    In a .csv file `point` (N, 3) becomes point_x, point_y and point_z, and `barycentric` (N, 2) becomes barycentric_u
    and barycentric_v.

    Raises:
        ValueError: another ending.
        OSError: the folder does not exist or cannot be written to.
    """
    extension = table_format(op, path)
    with replacing(path) as file:
        if extension == ".npz":
            np.savez(file, **columns)  # pyright: ignore[reportArgumentType]
            return
        names, formats, values = [], [], []
        for name, array in columns.items():
            digits = "%d" if array.dtype.kind == "i" else "%.9g" if array.dtype == np.float32 else "%.17g"
            if array.ndim == 1:
                names, formats, values = [*names, name], [*formats, digits], [*values, array.tolist()]
                continue
            for k, suffix in enumerate(SUFFIXES[array.shape[1]]):
                names, formats = [*names, f"{name}_{suffix}"], [*formats, digits]
                values.append(array[:, k].tolist())
        row = ",".join(formats) + "\n"
        file.write((",".join(names) + "\n").encode())
        file.writelines((row % numbers).encode() for numbers in zip(*values, strict=True))
