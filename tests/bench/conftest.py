import pytest


@pytest.fixture(autouse=True)
def no_rest(monkeypatch):
    """Times do not matter here, so that no run waits for the threads of the one before it."""
    monkeypatch.setattr("geomkit.bench.contest.REST", 0.0)
