"""The way of a request through the gateway: read, plan, dispatch, relay."""
