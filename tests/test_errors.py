import pytest

from geomkit.errors import DeviceError, MeshError, SignWarning, message, missing_package


def test_message_has_one_form():
    text = message("closest_point", "points", "(N, 3) floats", "(3, 10) float64")
    assert text == "closest_point: points: expected (N, 3) floats, got (3, 10) float64"


def test_missing_package_names_the_extra():
    error = missing_package("torch", "torch", "gradients through torch")
    assert isinstance(error, ImportError)
    assert error.name == "torch"
    assert str(error) == 'gradients through torch: needs the package torch: pip install "geomkit-diff[torch]"'
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("ours", "base"), [(MeshError, ValueError), (DeviceError, RuntimeError), (SignWarning, UserWarning)]
)
def test_kinds_are_caught_by_their_builtin_bases(ours, base):
    assert issubclass(ours, base)
