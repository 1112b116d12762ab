"""What `geomkit doctor` finds: the processor, the compiled kernels, CUDA, and the optional packages."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import geomkit
from geomkit.errors import DeviceError
from geomkit.runtime import cache, cuda, host, nvrtc

# Optional packages and the extra that brings them.
OPTIONAL = {
    "torch": "torch",
    "jax": "jax",
    "imageio-ffmpeg": "video",
    "xatlas": "uv",
    "nbclient": "notebook",
    "ipykernel": "notebook",
    "open3d": "bench",
    "libigl": "bench",
    "fcpw": "bench",
    "warp-lang": "bench",
    "pytest": "test",
    "hypothesis": "test",
    "ruff": "test",
}
CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
INSTALL_CUDA = 'pip install "geomkit-diff[cuda13]", or geomkit-diff[cuda12] for a driver of CUDA 12'


def examine() -> dict[str, Any]:
    """All findings as JSON values.

    Returns:
        "geomkit", "python", "platform": versions; "cpu": instruction sets, threads, libraries, and whether the kernels
        give the right answer to one question; "cuda": devices, CuPy, NVRTC, cache, and what is missing; "packages":
        version or None, and the line that installs it.
    """
    return {
        "geomkit": geomkit.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cuda": _cuda(),
        "packages": {
            name: {"version": _version(name), "install": f'pip install "geomkit-diff[{extra}]"'}
            for name, extra in OPTIONAL.items()
        },
    }


def _cpu() -> dict[str, Any]:
    try:
        found = {
            "libraries": str(host.library_folder()),
            "instruction_sets": host.levels(),
            "used": host.instruction_set(),
            "threads": host.num_threads(),
        }
        distance = geomkit.signed_distance(geomkit.shapes.box(), [[0.0, 0.0, 2.0]])
        return found | {"works": abs(float(distance[0]) - 1.5) < 1e-6, "problem": None}
    except (DeviceError, OSError) as error:
        return {"works": False, "problem": str(error)}


def _cuda() -> dict[str, Any]:
    found: dict[str, Any] = {"devices": [], "problem": None, "nvrtc": None, "nvrtc_problem": None}
    found["cupy"] = next((f"{name} {version}" for name in CUPY if (version := _version(name))), None)
    try:
        found["devices"] = [str(device) for device in cuda.devices()]
    except DeviceError as error:
        found["problem"] = str(error)
    try:
        compiler = nvrtc.library()
        found["nvrtc"] = "{}.{}".format(*compiler.version)
        found["architectures"] = [f"sm_{a}" for a in compiler.architectures]
    except DeviceError as error:
        found["nvrtc_problem"] = str(error)
    found["cache"] = str(cache.folder())
    return found


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def describe(found: dict[str, Any]) -> str:
    """The findings of `examine` as lines of text."""
    cpu, gpu = found["cpu"], found["cuda"]
    lines = [f"geomkit   {found['geomkit']}, Python {found['python']}, {found['platform']}"]
    if cpu["problem"] is None:
        sets = ", ".join(cpu["instruction_sets"])
        lines += [
            f"CPU       {cpu['used']} in use (built and able: {sets}), {cpu['threads']} threads",
            f"kernels   {'work' if cpu['works'] else 'give a WRONG answer'}, from {cpu['libraries']}",
        ]
    else:
        lines.append(f"CPU       does not work: {cpu['problem']}")
    lines += [f"GPU       {device}" for device in gpu["devices"]]
    if not gpu["devices"]:
        lines.append(f"GPU       not in use: {gpu['problem']}")
    lines.append(f"CuPy      {gpu['cupy'] if gpu['cupy'] else f'missing: {INSTALL_CUDA}'}")
    if gpu["nvrtc"] is not None:
        architectures = gpu["architectures"]
        lines.append(f"NVRTC     {gpu['nvrtc']}, for {architectures[0]} to {architectures[-1]}, cache {gpu['cache']}")
    else:
        lines.append(f"NVRTC     missing: {INSTALL_CUDA}")
    for name, package in found["packages"].items():
        lines.append(f"{name:<9} {package['version'] if package['version'] else 'missing: ' + package['install']}")
    return "\n".join(lines)
