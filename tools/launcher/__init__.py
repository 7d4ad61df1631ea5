"""The small process between us and a sandboxed command. It imports the standard library only."""
