"""`/v1/responses`, stateless, as a translation to chat completions and back.

What passes through and how is said where it is done: `request` (fields), `history` (input items), `tools` and `choice`,
`freeform` (custom tools), `reasoning`, `answer` (the Response object and its event stream).
"""
