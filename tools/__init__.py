"""What a coding agent may do to a repository, as MCP tools on one sandbox.

`tools.sandbox.Sandbox` is the boundary, `tools.server.build_server` puts the tools on it, and `sapwood mcp`
serves them to any MCP client.
"""
