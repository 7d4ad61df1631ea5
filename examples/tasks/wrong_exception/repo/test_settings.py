import pytest

from settings import MissingSetting, Settings

SETTINGS = Settings({"server": {"port": 8080}})


def test_a_value():
    assert SETTINGS.get("server.port") == 8080


@pytest.mark.parametrize("name", ["server.host", "client.name"])
def test_a_missing_one_is_named(name):
    with pytest.raises(MissingSetting, match=name):
        SETTINGS.get(name)


def test_a_default():
    assert SETTINGS.get_or("server.host", "localhost") == "localhost"
