"""New users."""


def new_user(name, admin=False, roles=[]):
    """A user record; everybody is a reader."""
    roles.append("reader")
    if admin:
        roles.append("admin")
    return {"name": name, "roles": roles}
