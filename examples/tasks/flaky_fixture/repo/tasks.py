"""A queue of tasks by priority."""

import heapq


class Queue:
    def __init__(self):
        self._heap = []

    def put(self, name, priority=5):
        heapq.heappush(self._heap, (priority, name))

    def take(self):
        """The most urgent task (smallest number); None when there is none."""
        return heapq.heappop(self._heap)[1] if self._heap else None

    def __len__(self):
        return len(self._heap)
