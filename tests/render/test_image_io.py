"""Image files, and the sRGB curve."""

import io
import struct
import zlib

import imageio.v3
import numpy as np
import pytest
from PIL import Image

import geomkit as gk
from geomkit.render import exr, png, radiance_hdr


def picture(channels: int, *, height: int = 37, width: int = 21) -> np.ndarray:
    return np.random.default_rng(channels).random((height, width, channels)).astype(np.float32)


def curve(x: float) -> float:
    """IEC 61966-2-1, from linear to sRGB."""
    return 12.92 * x if x <= 0.0031308 else 1.055 * x ** (1 / 2.4) - 0.055


def test_curve_is_the_standard_one():
    linear = np.linspace(0, 1.5, 301)
    wanted = np.array([curve(x) for x in linear])
    np.testing.assert_allclose(gk.linear_to_srgb(linear), wanted, rtol=1e-12)
    np.testing.assert_allclose(gk.srgb_to_linear(wanted), linear, atol=3e-8)
    # 188 of 255 is the well-known middle of black and white.
    assert round(255 * float(gk.linear_to_srgb(0.5))) == 188
    assert gk.linear_to_srgb(np.float32([0.2, -0.1])).dtype == np.float32
    assert gk.linear_to_srgb(-0.1) == pytest.approx(-1.292)


def test_curve_has_finite_gradients_in_torch():
    torch = pytest.importorskip("torch")
    x = torch.tensor([0.0, 0.001, 0.5, 1.0], dtype=torch.float64, requires_grad=True)
    for function in (gk.srgb_to_linear, gk.linear_to_srgb):
        assert torch.autograd.gradcheck(function, torch.tensor([0.001, 0.5, 1.0]).double().requires_grad_())
        function(x).sum().backward()
    assert torch.isfinite(x.grad).all() and x.grad[0] == pytest.approx(12.92 + 1 / 12.92)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize(("bits", "white"), [(8, 255), (16, 65535)])
def test_png(tmp_path, channels, bits, white):
    image = picture(channels)
    gk.save_image(tmp_path / "a.png", image, bits=bits)
    found = gk.load_image(tmp_path / "a.png")
    assert found.shape == image.shape and found.dtype == np.float32
    # Half a step of the curve, which is at most 2.3 times as steep as the diagonal.
    assert np.abs(found - image).max() < 0.5 * 2.3 / white + 1e-6
    if channels in (2, 4):
        np.testing.assert_allclose(found[..., -1], np.rint(image[..., -1].astype(float) * white) / white, atol=1e-7)


def test_png_holds_srgb_with_row_0_on_top(tmp_path):
    gk.save_image(tmp_path / "a.png", [[[1, 0, 0, 0.5]], [[0.5, 7, -1, 1]]])
    levels = np.asarray(Image.open(tmp_path / "a.png"))
    np.testing.assert_array_equal(levels, [[[255, 0, 0, 128]], [[188, 255, 0, 255]]])


def test_other_pngs(tmp_path):
    palette = Image.new("P", (3, 2), 1)
    palette.putpalette([0, 0, 0, 188, 0, 255])
    palette.save(tmp_path / "p.png")
    np.testing.assert_allclose(gk.load_image(tmp_path / "p.png")[1, 2], [0.5, 0, 1], atol=0.003)
    Image.new("1", (3, 2), 1).save(tmp_path / "b.png")
    np.testing.assert_array_equal(gk.load_image(tmp_path / "b.png"), np.ones((2, 3, 1)))


@pytest.mark.parametrize("kind", range(5))
def test_deep_png_of_each_filter(kind):
    """A row whose filter is `kind` below rows of the others, filtered here byte by byte."""
    levels = np.random.default_rng(kind).integers(0, 65536, (6, 5, 3), dtype=np.uint16)
    raw = levels.astype(">u2").tobytes()
    lines, size = [raw[k : k + 30] for k in range(0, len(raw), 30)], 6
    packed, above = b"", bytes(30)
    for row, line in enumerate(lines):
        how = (kind + row) % 5
        packed += bytes([how])
        for k in range(30):
            a, b, c = (line[k - size] if k >= size else 0), above[k], (above[k - size] if k >= size else 0)
            guess = min((a, b, c), key=lambda x: abs(a + b - c - x))
            packed += bytes([(line[k] - (0, a, b, (a + b) // 2, guess)[how]) & 255])
        above = line
    data = png.write_png(levels)
    body = zlib.compress(packed)
    start = data.index(b"IDAT") - 4
    data = data[:start] + struct.pack(">I", len(body)) + b"IDAT" + body + bytes(4) + data[-12:]
    np.testing.assert_array_equal(png.read_png(data), levels)


def test_deep_png_is_read_by_others_and_theirs_here(tmp_path):
    levels = np.random.default_rng(0).integers(0, 65536, (9, 7), dtype=np.uint16)
    np.testing.assert_array_equal(imageio.v3.imread(io.BytesIO(png.write_png(levels[..., None]))), levels)
    imageio.v3.imwrite(tmp_path / "a.png", levels)
    np.testing.assert_allclose(gk.load_image(tmp_path / "a.png")[..., 0], gk.srgb_to_linear(levels / 65535), atol=1e-6)


def test_jpeg(tmp_path):
    image = np.zeros((32, 32, 3), np.float32)
    image[:16] = [0.5, 0.1, 0.02]
    for name in ("a.jpg", "a.jpeg"):
        gk.save_image(tmp_path / name, image)
        found = gk.load_image(tmp_path / name)
        assert found.shape == image.shape and np.abs(found - image).max() < 0.02
    gk.save_image(tmp_path / "a.jpg", image[..., 0])
    assert gk.load_image(tmp_path / "a.jpg").shape == (32, 32, 1)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("height", [1, 16, 37])
def test_exr_keeps_every_bit(tmp_path, channels, height):
    image = 1e6 * picture(channels, height=height) - 100
    image[0, 0, 0], image[0, 1, 0] = np.inf, np.nan
    gk.save_image(tmp_path / "a.exr", image)
    np.testing.assert_array_equal(gk.load_image(tmp_path / "a.exr"), image)
    smooth = np.broadcast_to(np.linspace(0, 1, 400, dtype=np.float32)[:, None, None], (400, 50, channels))
    gk.save_image(tmp_path / "a.exr", smooth)
    np.testing.assert_array_equal(gk.load_image(tmp_path / "a.exr"), smooth)
    assert (tmp_path / "a.exr").stat().st_size < smooth.nbytes / 8


def repacked(packing: str) -> bytes:
    """An EXR of half B, G, R and float Z, with a data window that does not begin at 0, packed another way."""
    names = [(b"B", 1), (b"G", 1), (b"R", 1), (b"Z", 2)]
    listed = b"".join(n + b"\0" + struct.pack("<iIii", kind, 0, 1, 1) for n, kind in names) + b"\0"
    window = struct.pack("<4i", 5, -3, 7, -2)
    head = struct.pack("<II", exr.MAGIC, 2)
    parts = {b"channels": listed, b"compression": bytes([exr.COMPRESSIONS.index(packing)]), b"dataWindow": window}
    for name, value in parts.items():
        head += name + b"\0type\0" + struct.pack("<i", len(value)) + value
    blocks = []
    for row in range(2):
        line = (np.arange(9).reshape(3, 3) + 10 * row).astype("<f2").tobytes() + bytes(12)
        if packing != "none":
            bytes_ = np.frombuffer(line, np.uint8).astype(int)
            halves = np.concatenate([bytes_[::2], bytes_[1::2]])
            steps = ((np.diff(halves, prepend=128) + 128) & 255).astype(np.uint8).tobytes()
            line = zlib.compress(steps, 9) if packing == "ZIPS" else struct.pack("b", -len(steps)) + steps
        blocks.append(struct.pack("<ii", row - 3, len(line)) + line)
    start = len(head) + 1 + 16
    return head + b"\0" + struct.pack("<QQ", start, start + len(blocks[0])) + b"".join(blocks)


@pytest.mark.parametrize("packing", ["none", "RLE", "ZIPS"])
def test_exr_of_others(packing):
    if packing != "none":
        # (A block no smaller than its content would be taken as unpacked; these are not of that size.)
        assert len(repacked(packing)) != len(repacked("none"))
    wanted = np.stack([np.arange(9).reshape(3, 3) + 10 * row for row in range(2)])[:, ::-1].transpose(0, 2, 1)
    np.testing.assert_array_equal(exr.read_exr(repacked(packing)), wanted)


@pytest.mark.parametrize("width", [3, 8, 300])
def test_hdr(tmp_path, width):
    image = picture(3, width=width) * np.float32(10.0) ** np.arange(-18, 19, dtype=np.float32)[:, None, None]
    image[0] = 0
    gk.save_image(tmp_path / "a.hdr", image)
    found = gk.load_image(tmp_path / "a.hdr")
    assert found.shape == image.shape and not found[0].any()
    assert (np.abs(found - image) <= image.max(axis=2, keepdims=True) / 255).all()
    gk.save_image(tmp_path / "b.hdr", found)
    np.testing.assert_array_equal(gk.load_image(tmp_path / "b.hdr"), found)


def test_hdr_with_runs():
    row = bytes([2, 2, 0, 10, 138, 128, 4, 1, 2, 3, 4, 134, 64, 138, 0, 138, 129])
    found = radiance_hdr.read_hdr(b"#?RADIANCE\nEXPOSURE=1\n\n-Y 1 +X 10\n" + row)
    np.testing.assert_allclose(found[0, :, 0], 1.0)
    np.testing.assert_allclose(found[0, :, 1], np.array([1, 2, 3, 4] + [64] * 6) / 128)


def test_npy(tmp_path):
    image = picture(5)
    gk.save_image(tmp_path / "a.npy", image)
    np.testing.assert_array_equal(gk.load_image(tmp_path / "a.npy"), image)
    np.save(tmp_path / "b.npy", image[..., 0].astype(np.float64))
    assert gk.load_image(tmp_path / "b.npy").shape == (37, 21, 1)


def test_images_of_any_library(tmp_path):
    torch = pytest.importorskip("torch")
    gk.save_image(tmp_path / "a.exr", torch.ones(2, 3, 3))
    gk.save_image(tmp_path / "b.exr", np.ones((3, 2, 3)).transpose(1, 0, 2))
    np.testing.assert_array_equal(gk.load_image(tmp_path / "a.exr"), gk.load_image(tmp_path / "b.exr"))


@pytest.mark.parametrize(
    ("name", "image", "options", "text"),
    [
        ("a.bmp", np.ones((2, 2, 3)), {}, "save_image: path: expected a file name ending in .png, .jpg"),
        ("a.jpg", np.ones((2, 2, 4)), {}, "save_image: image: expected 1, 3 channels for JPG, got 4"),
        ("a.exr", np.ones((2, 2, 5)), {}, "save_image: image: expected 1, 2, 3, 4 channels for EXR, got 5"),
        ("a.hdr", np.ones((2, 2)), {}, "save_image: image: expected 3 channels for HDR, got 1"),
        ("a.hdr", -np.ones((2, 2, 3)), {}, "save_image: image: expected finite numbers from 0 on for HDR"),
        ("a.png", np.full((2, 2), np.nan), {}, "save_image: image: expected numbers, got 4 NaN"),
        ("a.png", np.ones((2, 2)), {"bits": 12}, "save_image: bits: expected 8 or 16, got 12"),
        ("a.png", np.ones((0, 2, 3)), {}, "save_image: image: expected pixels, got"),
        ("a.png", np.ones(3), {}, "save_image: image: expected (H, W, C)"),
    ],
)
def test_refuses_to_write(tmp_path, name, image, options, text):
    with pytest.raises(ValueError) as caught:
        gk.save_image(tmp_path / name, image, **options)
    assert str(caught.value).startswith(text) and not list(tmp_path.iterdir())


def test_integers(tmp_path):
    """Of 0 to 255 all but 0 would be white."""
    codes = np.full((2, 2, 3), 128, np.uint8)
    for name in ("a.png", "a.jpg", "a.hdr"):
        with pytest.raises(TypeError, match=r"^save_image: image: expected floats of linear light.* got uint8"):
            gk.save_image(tmp_path / name, codes)
    gk.save_image(tmp_path / "a.npy", codes)
    assert gk.load_image(tmp_path / "a.npy").max() == 128


def test_refuses_to_read(tmp_path):
    with pytest.raises(FileNotFoundError):
        gk.load_image(tmp_path / "none.png")
    with pytest.raises(ValueError, match="load_image: path: expected a file name ending in"):
        gk.load_image(tmp_path / "a.gif")
    image = picture(3, width=300)
    for name in ("a.png", "a.jpg", "a.exr", "a.hdr", "a.npy"):
        gk.save_image(tmp_path / name, image, bits=16)
        whole = (tmp_path / name).read_bytes()
        for data in (b"", b"nothing of the kind", whole[: len(whole) // 2]):
            (tmp_path / name).write_bytes(data)
            kind = name[2:].upper()
            with pytest.raises(ValueError, match=f"^load_image: path: expected a valid {kind} file, got .*{name} "):
                gk.load_image(tmp_path / name)
    (tmp_path / "a.exr").write_bytes(repacked("none").replace(b"type\0\1\0\0\0\0", b"type\0\1\0\0\0\4"))
    with pytest.raises(ValueError, match="packed by PIZ: ZIP, ZIPS, RLE and none are read"):
        gk.load_image(tmp_path / "a.exr")
