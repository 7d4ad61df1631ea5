from logfmt import parse


def test_plain_values():
    assert parse("level=info code=200") == {"level": "info", "code": "200"}


def test_a_quoted_value():
    assert parse('level=warn msg="disk is full"') == {"level": "warn", "msg": "disk is full"}


def test_two_quoted_values():
    assert parse('msg="not found" path="/a b" code=404') == {"msg": "not found", "path": "/a b", "code": "404"}


def test_no_pairs():
    assert parse("nothing here") == {}
