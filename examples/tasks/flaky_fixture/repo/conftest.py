import pytest

from tasks import Queue


@pytest.fixture(scope="session")
def queue():
    return Queue()
