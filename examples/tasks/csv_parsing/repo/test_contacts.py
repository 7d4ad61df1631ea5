from contacts import emails, load


def test_simple_rows():
    assert load("name,email\nAnn,a@x.org\n") == [{"name": "Ann", "email": "a@x.org"}]


def test_a_comma_in_quotes():
    [contact] = load('name,email\n"Smith, Ann",a@x.org\n')
    assert contact == {"name": "Smith, Ann", "email": "a@x.org"}


def test_quotes_and_line_ends_in_quotes():
    [contact] = load('name,note\nBob,"said ""hi""\nand left"\n')
    assert contact["note"] == 'said "hi"\nand left'


def test_emails():
    assert emails(load('name,email\n"B, b",b@x.org\nA,a@x.org\n')) == ["a@x.org", "b@x.org"]
