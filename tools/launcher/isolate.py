"""Linux namespaces by system call, for hosts without bubblewrap.

Everything here acts on the calling process and is meant for the launcher, never for a process with threads.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct

_CLONE_NEWNS = 0x00020000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1
_SYS_MOUNT_SETATTR = 442  # one number on every architecture, Linux 5.12

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS = 1, 24, 28
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_SECBITS_NO_ROOT_LOCKED = 0b11
_LAST_CAPABILITY = 63
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def _checked(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def die_with_parent(sent: signal.Signals) -> None:
    """Ask the kernel for `sent` when the thread that created this process ends."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, int(sent), 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that none can slip away."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")


def give_up_privileges() -> None:
    """No capability and no set-uid program from the next exec on, also where the user is root."""
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _libc.prctl(_PR_SET_SECUREBITS, _SECBITS_NO_ROOT_LOCKED, 0, 0, 0)
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")


def enter_namespaces(*, block_network: bool) -> None:
    """Enter new user, mount, IPC and (for children) process namespaces, and a network one with loopback only."""
    user, group = os.getuid(), os.getgid()
    flags = _CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWIPC | _CLONE_NEWPID
    _checked(_libc.unshare(flags | (_CLONE_NEWNET if block_network else 0)), "unshare")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    if block_network:
        _raise_loopback()


def seal_files(writable: list[str], hidden: list[str]) -> None:
    """Make every mount read-only but the `writable` folders, and lay an empty folder over the `hidden` ones."""
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    for folder in writable:
        _mount(folder, folder, None, _MS_BIND | _MS_REC)
    for folder in hidden:
        _mount("none", folder, "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _set_read_only("/", True)
    for folder in writable:
        _set_read_only(folder, False)
    if os.path.isdir("/dev/shm"):
        _mount("none", "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV)


def mount_own_proc() -> None:
    """Show this process namespace only. Containers that mask /proc refuse it; then the old view stays."""
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode() if kind else None, ctypes.c_ulong(flags), None
    )
    _checked(result, f"mount {target}")


def _set_read_only(target: str, read_only: bool) -> None:
    flag = _MOUNT_ATTR_RDONLY
    attributes = _MountAttr(attr_set=flag if read_only else 0, attr_clr=0 if read_only else flag)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    path = os.fsencode(target)
    result = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR), _AT_FDCWD, path, _AT_RECURSIVE, ctypes.byref(attributes), size
    )
    _checked(result, f"mount_setattr {target}")


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = bytearray(struct.pack("16sH22x", b"lo", 0))
        fcntl.ioctl(control, _SIOCGIFFLAGS, request)
        name, flags = struct.unpack("16sH22x", request)
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", name, flags | _IFF_UP))


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
