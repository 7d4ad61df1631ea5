"""What a session is told about its repository, once, in its first user message."""
