import pytest

from tasks import Queue


@pytest.fixture
def queue():
    return Queue()
