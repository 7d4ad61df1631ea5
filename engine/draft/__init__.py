"""Draft tokens for speculative decoding, from text that has been seen before: no second model, no tensors.

An agent repeats itself all day: it reads a file and writes most of it back, it makes the same tool call again.
So the continuation of an earlier occurrence of the last few tokens is a good guess of the next ones:

- `SuffixIndex` looks in the request's own prompt and output,
- `DraftMemory` in what other requests of the same namespace have generated,
- `Drafter`, one for each request, takes the longer match and decides how many tokens are worth verifying.

A draft is only a guess, and the engine makes it exact with one rule: the draft token at a position is accepted if
and only if the sampler, run on the logits after the tokens accepted so far and with its own noise at that position,
yields the same token. The first one that differs is replaced by what the sampler yielded, and the rest is dropped.
Since the noise is a pure function of (seed, position), a request's output is token for token the same as without
drafts, greedy or sampled; what is drafted decides only how many steps it takes.
"""
