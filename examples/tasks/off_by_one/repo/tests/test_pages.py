from pages import count, page

LETTERS = list("abcdefghijklm")


def test_the_first_page_has_the_first_items():
    assert page(LETTERS, 1, 5) == list("abcde")


def test_the_last_page_is_shorter():
    assert page(LETTERS, 3, 5) == list("klm")


def test_behind_the_last_page():
    assert page(LETTERS, 4, 5) == []


def test_every_item_is_on_one_page():
    pages = [page(LETTERS, number, 4) for number in range(1, count(LETTERS, 4) + 1)]
    assert sum(pages, []) == LETTERS
