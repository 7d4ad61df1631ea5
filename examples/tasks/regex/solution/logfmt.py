"""Reading log lines of the form key=value key="a longer value"."""

import re

_PAIR = re.compile(r'(\w+)=(?:"([^"]*)"|(\S+))')


def parse(line):
    """The pairs of a line; quotes around values are removed."""
    return {key: quoted or plain for key, quoted, plain in _PAIR.findall(line)}
