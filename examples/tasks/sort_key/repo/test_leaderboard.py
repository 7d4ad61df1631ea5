from leaderboard import Player, places, ranking

PLAYERS = [Player("cleo", 7), Player("abe", 7), Player("dan", 12), Player("bea", 3)]


def test_most_points_first():
    assert ranking(PLAYERS)[0].name == "dan"


def test_equal_points_by_name():
    assert [player.name for player in ranking(PLAYERS)] == ["dan", "abe", "cleo", "bea"]


def test_places():
    assert places(PLAYERS) == {"dan": 1, "abe": 2, "cleo": 2, "bea": 4}
