"""Settings of an application, by dotted name."""


class MissingSetting(LookupError):
    """A setting that nobody set; says its full name."""


class Settings:
    def __init__(self, values):
        self._values = values

    def get(self, name):
        """The value of "section.key". Raises MissingSetting."""
        value = self._values
        for key in name.split("."):
            try:
                value = value[key]
            except KeyError:
                raise MissingSetting(name) from None
        return value

    def get_or(self, name, default):
        try:
            return self.get(name)
        except MissingSetting:
            return default
