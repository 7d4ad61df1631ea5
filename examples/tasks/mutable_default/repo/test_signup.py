from signup import new_user


def test_users_do_not_share_roles():
    new_user("root", admin=True)
    assert new_user("guest")["roles"] == ["reader"]


def test_given_roles_come_first():
    assert new_user("ann", roles=["writer"])["roles"] == ["writer", "reader"]


def test_the_callers_list_stays_as_it_is():
    given = ["writer"]
    new_user("bob", admin=True, roles=given)
    assert given == ["writer"]
