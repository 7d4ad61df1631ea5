"""Anthropic's `/v1/messages` as a translator to chat completions, and the body of `/v1/messages/count_tokens`."""
