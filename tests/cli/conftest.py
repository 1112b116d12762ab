"""Fixtures of the tests of the command line."""

import pytest

from geomkit.cli import main


@pytest.fixture
def call(capsys):
    """Run a command in this process: exit code, standard output, standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return run
