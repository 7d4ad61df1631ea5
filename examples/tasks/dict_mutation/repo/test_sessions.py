from sessions import Sessions


def filled():
    sessions = Sessions()
    for number, user in enumerate(("ann", "bob", "eve")):
        sessions.begin(user, now=number * 100)
    return sessions


def test_nothing_has_expired():
    assert filled().expire(now=500) == []


def test_one_has_expired():
    sessions = filled()
    assert sessions.expire(now=600) == ["ann"]
    assert "ann" not in sessions
    assert "bob" in sessions


def test_all_have_expired():
    assert filled().expire(now=1000) == ["ann", "bob", "eve"]
