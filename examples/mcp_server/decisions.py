"""An MCP server of one's own: the decisions that a team has written down, for its agents to look up.

Each decision is a Markdown file whose first line is its title. Started by an MCP client, see `mcp.json`:

    python decisions.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)


def build(folder: Path) -> MCPServer:
    server = MCPServer("decisions")

    @server.tool(annotations=READ_ONLY, structured_output=False)
    def find_decisions(words: Annotated[str, Field(description="All must occur; empty lists everything.")] = "") -> str:
        """List the team's decisions that contain these words: name and title."""
        wanted = words.lower().split()
        texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
        found = [f"{name}: {title(text)}" for name, text in texts.items() if all(w in text.lower() for w in wanted)]
        return "\n".join(found) or "no decision contains all of these words"

    @server.tool(annotations=READ_ONLY, structured_output=False)
    def read_decision(name: Annotated[str, Field(description="As find_decisions gives it.")]) -> str:
        """Read one of the team's decisions."""
        known = {path.stem: path for path in folder.glob("*.md")}
        if name not in known:  # only an error of this kind reaches the model with its words
            raise ToolError(f"there is no decision {name!r}; there are: {', '.join(sorted(known))}")
        return known[name].read_text(encoding="utf-8")

    return server


def title(text: str) -> str:
    return text.partition("\n")[0].lstrip("# ")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: python decisions.py FOLDER")
    build(Path(sys.argv[1])).run()
