def test_one(queue):
    queue.put("write")
    assert len(queue) == 1


def test_urgent_first(queue):
    queue.put("read")
    queue.put("fix", priority=1)
    assert queue.take() == "fix"
    assert queue.take() == "read"


def test_equal_priority_by_name(queue):
    queue.put("b")
    queue.put("a")
    assert [queue.take(), queue.take()] == ["a", "b"]


def test_empty(queue):
    assert queue.take() is None
