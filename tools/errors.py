"""What a tool tells a model when it refuses.

ToolFault            the call can't be done: one or two lines that say what to do instead
└── PathFault        the path is malformed, missing or leaves the sandbox root
"""

from __future__ import annotations

import errno
import os


class ToolFault(Exception):
    """A refusal that the model reads. Anything else that a tool raises is a defect and stays hidden."""


class PathFault(ToolFault):
    """A path that can't be used; the message names the path as the model wrote it."""


_REASONS = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "has a parent that is a file, not a folder",
    errno.EISDIR: "is a folder, not a file",
    errno.ELOOP: "is a symbolic link that can't be followed inside the root",
    errno.EACCES: "can't be accessed: permission denied",
    errno.EPERM: "can't be changed: operation not permitted",
    errno.EROFS: "is on a read-only file system",
    errno.ENAMETOOLONG: "has a name that is too long",
    errno.ENOSPC: "can't be written: the disk is full",
    errno.ENXIO: "is not a regular file",
}


def path_fault(error: OSError, path: str) -> PathFault:
    """The fault for an operating system error on `path`, without the absolute path that it carries."""
    code = error.errno or 0
    return PathFault(f"{path!r} {_REASONS.get(code) or 'failed: ' + os.strerror(code)}")
