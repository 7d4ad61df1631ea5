"""Logged-in users, until their time is over."""


class Sessions:
    def __init__(self):
        self._ends = {}

    def begin(self, user, now, seconds=600):
        self._ends[user] = now + seconds

    def expire(self, now):
        """Forget sessions that ended; returns the users."""
        gone = []
        for user, end in list(self._ends.items()):
            if end <= now:
                del self._ends[user]
                gone.append(user)
        return gone

    def __contains__(self, user):
        return user in self._ends
