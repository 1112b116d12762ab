import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import geomkit
from geomkit.errors import DeviceError
from geomkit.runtime import cache, nvrtc

SETTINGS = {"architecture": "sm_90", "real": "float", "options": ("-DGK_STACK=64",)}


class Compiler:
    """Stands for NVRTC: makes code of the text and counts how often."""

    version = (13, 0)
    count = 0

    def compile(self, text_path, **settings):
        self.count += 1
        return b"code of " + repr(sorted(settings.items())).encode() + Path(text_path).read_bytes()


@pytest.fixture
def compiler():
    return Compiler()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("GEOMKIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def text(tmp_path):
    """A kernel file with a header that includes another, and one that includes itself by a detour."""
    for name, content in {
        "kernels/a.cu": '#include "../core/first.h"\n#include <stdio.h>\nkernel\n',
        "core/first.h": '#pragma once\n  #  include "second.h" // why\n',
        "core/second.h": '#include "first.h"\nconstexpr int n = 1;\n',
        "core/other.h": "unrelated\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    return tmp_path / "kernels" / "a.cu"


def only_entry(home):
    (entry,) = home.iterdir()
    assert entry.suffix == ".cubin"
    return entry


def test_value(text, compiler, home):
    first = cache.cubin(text, compiler=compiler, **SETTINGS)
    assert first == Compiler().compile(text, **SETTINGS)
    assert cache.cubin(text, compiler=compiler, **SETTINGS) == first
    assert compiler.count == 1
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert only_entry(home).stem == cache.key(text, compiler=compiler, **SETTINGS)


def test_folder(monkeypatch, tmp_path):
    assert cache.folder() == tmp_path / "cache"
    monkeypatch.setenv("GEOMKIT_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "xdg" / "geomkit"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for ignored in ("relative", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert cache.folder() == tmp_path / "home" / ".cache" / "geomkit"


def test_texts(text):
    assert [path.name for path in cache.texts(text)] == ["a.cu", "first.h", "second.h"]


def test_key(text, compiler, tmp_path):
    def key(**changed):
        return cache.key(text, **({"compiler": compiler} | SETTINGS | changed))

    first, newer = key(), Compiler()
    newer.version = (13, 1)
    changed = [
        key(architecture="sm_80"),
        key(real="double"),
        key(options=("-DGK_STACK=128",)),
        key(options=()),
        key(compiler=newer),
    ]
    (tmp_path / "core" / "other.h").write_text("changed\n")
    os.utime(text)
    assert key() == first
    for path in ("core/second.h", "kernels/a.cu"):
        (tmp_path / path).write_text((tmp_path / path).read_text() + "\n")
        changed.append(key())
    assert len({first, *changed}) == 8


def test_key_does_not_depend_on_the_place(text, compiler, tmp_path):
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("kernels", "core"):
        (tmp_path / name).rename(moved / name)
    here = cache.key(moved / "kernels" / "a.cu", compiler=compiler, **SETTINGS)
    for name in ("kernels", "core"):
        (moved / name).rename(tmp_path / name)
    assert cache.key(text, compiler=compiler, **SETTINGS) == here


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:20], lambda b: b"", lambda b: b[:40] + b"?" + b[41:]], ids=range(4)
)
def test_damaged_entries_are_made_anew(text, compiler, home, damage):
    good = cache.cubin(text, compiler=compiler, **SETTINGS)
    entry = only_entry(home)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    assert cache.cubin(text, compiler=compiler, **SETTINGS) == good
    assert compiler.count == 2
    assert only_entry(home).read_bytes() == whole


def test_error_of_compilation_is_not_kept(text, compiler, home, monkeypatch):
    def fails(text_path, **settings):
        raise DeviceError("a.cu(3): error")

    monkeypatch.setattr(compiler, "compile", fails)
    with pytest.raises(DeviceError, match="error"):
        cache.cubin(text, compiler=compiler, **SETTINGS)
    assert not list(home.iterdir())


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_folder_that_others_write_to_is_refused(text, compiler, home, mode):
    home.mkdir()
    home.chmod(mode)
    with pytest.raises(DeviceError, match=rf"cache is writable by others \(mode {mode:04o}\): .*GEOMKIT_CACHE_DIR"):
        cache.cubin(text, compiler=compiler, **SETTINGS)
    assert compiler.count == 0


def test_folder_of_another_user_is_refused(text, compiler, home, monkeypatch):
    cache.cubin(text, compiler=compiler, **SETTINGS)
    monkeypatch.setattr(cache.os, "geteuid", lambda: home.stat().st_uid + 1)
    with pytest.raises(DeviceError, match=f"cache belongs to user {home.stat().st_uid}: "):
        cache.cubin(text, compiler=compiler, **SETTINGS)


def test_folder_that_can_not_be_made(text, compiler, home, monkeypatch):
    home.write_text("a file")
    with pytest.warns(RuntimeWarning, match="compiled kernels are not kept .*GEOMKIT_CACHE_DIR"):
        made = cache.cubin(text, compiler=compiler, **SETTINGS)
    assert made == Compiler().compile(text, **SETTINGS)


def test_failed_write_leaves_nothing(text, compiler, home, monkeypatch):
    def fails(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", fails)
    with pytest.warns(RuntimeWarning, match="No space left"):
        cache.cubin(text, compiler=compiler, **SETTINGS)
    assert not list(home.iterdir())


# A process that looks up, compiles and removes the same entry again and again.
WORKER = """
import sys
from geomkit.runtime import cache

class Compiler:
    version = (13, 0)
    def compile(self, text_path, **settings):
        return b"code " * 20000

settings = {"compiler": Compiler(), "architecture": "sm_90", "real": "float"}
entry = cache.folder() / f"{cache.key(sys.argv[1], **settings)}.cubin"
for i in range(50):
    if i % 5 == 0:
        entry.unlink(missing_ok=True)
    assert cache.cubin(sys.argv[1], **settings) == b"code " * 20000
"""


def test_processes_at_once(text, home):
    package = str(Path(geomkit.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-W", "error", "-c", WORKER, str(text)]
    processes = [subprocess.Popen(command, env=environment) for _ in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert not [path for path in home.iterdir() if path.suffix != ".cubin"]


def test_newest_compiler_is_the_default(text, home):
    try:
        nvrtc.library()
    except DeviceError as error:
        pytest.skip(str(error))
    text.write_text('extern "C" __global__ void k(int n, float* a) { a[n] = GK_STACK; }\n')
    assert cache.cubin(text, **SETTINGS).startswith(b"\x7fELF")
