"""What the GPU's registers and memory cost each kernel: `python -m geomkit.runtime.ptxas`. It needs nvcc and no GPU."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from geomkit.errors import DeviceError
from geomkit.runtime import host, nvrtc

# ptxas names a kernel, then its memory, then its registers.
_KERNEL = re.compile(
    r"Compiling entry function '(?P<kernel>\w+)'.*?(?P<stack>\d+) bytes stack frame, "
    r"(?P<spill_stores>\d+) bytes spill stores, (?P<spill_loads>\d+) bytes spill loads"
    r".*?Used (?P<registers>\d+) registers",
    re.DOTALL,
)


class Usage(NamedTuple):
    """What one kernel uses, memory in bytes a thread."""

    source: str
    kernel: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int


def sources() -> list[str]:
    """All kernel files, relative to `kernels`."""
    folder = host.kernel_folder() / "kernels"
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.cu"))


def usage(source: str, *, architecture: str = "sm_90", real: str = "float", stack: int = 64) -> list[Usage]:
    """Compile a kernel file with nvcc and read what ptxas says of its kernels.

    Args:
        source: file below `kernels`.
        architecture: such as "sm_90".
        real: "float" or "double".
        stack: entries of a traversal stack.

    Raises:
        DeviceError: nvcc is missing, or does not compile the file or warns of something in it.
    """
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise DeviceError("nvcc is missing: install the CUDA toolkit and have nvcc on the PATH")
    path = host.kernel_folder() / "kernels" / source
    flags = nvrtc.flags(architecture=architecture, real=real, options=(f"-DGK_STACK={stack}",))
    with tempfile.TemporaryDirectory() as folder:
        output = str(Path(folder) / "kernel.cubin")
        command = [nvcc, "-cubin", *flags, "-Werror", "all-warnings", "-Xptxas", "-v", str(path), "-o", output]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    log = done.stdout + done.stderr
    if done.returncode:
        raise DeviceError(f"{path.name}, {architecture}, {real}: {nvrtc.first_error(log, 'nvcc failed')}\n{log}")
    found = [m.groupdict() for m in _KERNEL.finditer(log)]
    rows = [Usage(source, m.pop("kernel"), **{name: int(value) for name, value in m.items()}) for m in found]
    return sorted(rows, key=lambda row: row.kernel)


def table(rows: Iterable[Usage]) -> str:
    """The rows as text in columns."""
    cells = [(*Usage._fields,), *(tuple(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        for line in cells
    )


def main(arguments: list[str] | None = None) -> None:
    """Print the table of all kernels.

    Args:
        arguments: of the command line; those of the process if None.
    """
    description = "Registers and memory that each kernel takes on a GPU."
    parser = argparse.ArgumentParser(prog="python -m geomkit.runtime.ptxas", description=description)
    parser.add_argument("--architecture", default="sm_90")
    parser.add_argument("--real", default="float", choices=("float", "double"))
    parser.add_argument("--stack", type=int, default=64, help="entries of a traversal stack")
    parser.add_argument("sources", nargs="*", help="files below cuda/kernels; all by default")
    given = parser.parse_args(arguments)
    rows: list[Usage] = []
    for source in given.sources or sources():
        rows += usage(source, architecture=given.architecture, real=given.real, stack=given.stack)
    print(table(rows))


if __name__ == "__main__":
    main()
