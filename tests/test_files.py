"""Files that appear whole or not at all."""

import errno
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

import geomkit as gk
from geomkit.files import destination, replacing


def test_errors_of_writing_name_the_path_of_the_user(tmp_path, monkeypatch):
    path = tmp_path / "a.obj"
    for name in ("mkstemp", "replace"):
        with monkeypatch.context() as patch:

            def fail(*args, **options):
                raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / ".geomkit-x.tmp"))

            patch.setattr(tempfile if name == "mkstemp" else os, name, fail)
            with pytest.raises(PermissionError) as error:
                gk.shapes.box().save(path)
        assert error.value.filename == str(path)
    with pytest.raises(OSError, match="No space left on device: .*a.obj") as error, replacing(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(FileNotFoundError) as error, replacing(path):
        (tmp_path / "other").read_bytes()
    assert error.value.filename == str(tmp_path / "other")
    assert not list(tmp_path.iterdir())


def test_a_name_as_long_as_the_file_system_allows(tmp_path):
    path = tmp_path / ("n" * 251 + ".obj")
    gk.shapes.box().save(path)
    assert gk.load_mesh(path).n_faces == 12 and list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target.obj", tmp_path / "link.obj"
    link.symlink_to(target)
    for extents in ((1, 1, 1), (1, 2, 3)):
        gk.shapes.box(extents).save(link)
        assert link.is_symlink() and not target.is_symlink()
        assert gk.load_mesh(target).volume == pytest.approx(np.prod(extents))
    assert list(target.parent.iterdir()) == [target]
    broken = tmp_path / "broken.obj"
    broken.symlink_to(tmp_path / "missing" / "a.obj")
    with pytest.raises(FileNotFoundError, match="no such folder: .*missing"):
        gk.shapes.box().save(broken)
    loop = tmp_path / "loop.obj"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic links") as error:
        gk.shapes.box().save(loop)
    assert error.value.filename == str(loop)


def test_a_device_is_written_to_and_stays(tmp_path):
    link = tmp_path / "null.obj"
    link.symlink_to("/dev/null")
    gk.shapes.box().save(link)
    assert Path("/dev/null").is_char_device() and link.is_symlink()


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work(tmp_path, monkeypatch):
    path = tmp_path / "a.obj"
    monkeypatch.setattr(os, "access", lambda *_: False)
    for _ in range(2):
        with pytest.raises(PermissionError) as error:
            destination(path)
        assert error.value.filename == str(path)
        path.touch()
