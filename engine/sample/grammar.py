"""Grammars that hold generated text to a JSON schema, a tool-call format, a regular expression or an EBNF, by xgrammar.

A `Grammar` is compiled once and shared. A `GrammarState` follows one request through it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from torch import Tensor

from engine.errors import RequestError
from engine.prompt.tokenizer import Tokenizer
from engine.sample.compiled import CompiledCache
from engine.sample.loosen import COUNTED, loosened
from engine.sample.prepare_schema import IN_JSON, IN_XML, matched_whole
from engine.sample.schema import check_regex, check_schema, invalid

CACHE_BYTES = 64 << 20
MAX_SOURCE = 256 << 10
MAX_WHITESPACE = 2
_THREADS = 2

# A character of a string with minLength or maxLength, as xgrammar 0.2 writes it. It lets control characters through,
# which JSON forbids, and no escape, so that such a string could hold neither a quote nor a line feed.
_BOUNDED = r"(([^\"\\\r\n]))"
_BOUNDED_MENDED = r'(([^\0-\x1f\"\\]) | ("\\" [\"\\/bfnrt]))'
_BOUNDED_LONG = r"(([^\0-\x1f\"\\]))"
_BOUNDED_RULE = re.compile(rf"^(\w+) ::= {re.escape(_BOUNDED)}$", re.MULTILINE)
_REPEATED = re.compile(r"(\w+)\{\d+, (-?\d+)\}")
_BOUNDED_STRING = re.compile(r'(\w+)\{(\d+), (-?\d+)\} "\\""')
_STRING_REST = re.compile(r"^(basic_string_sub\w*) ::= ", re.MULTILINE)


class GrammarState:
    """Where one request is in its grammar."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def fill(self, out: Tensor) -> None:
        """Write the tokens that may come next into `out`, int32 [ceil(vocab / 32)], as a bitmask."""
        self._matcher.fill_next_token_bitmask(out.view(1, -1), 0)

    def accept(self, token: int) -> bool:
        """Step over `token`; False, with nothing changed, if the grammar doesn't allow it."""
        return not self.finished and bool(self._matcher.accept_token(token))

    def accepts(self, text: str) -> bool:
        """Whether the grammar allows `text` here. The state stays where it is."""
        return bool(self._matcher.fork().accept_string(text))

    @property
    def finished(self) -> bool:
        """Whether the end-of-sequence token was accepted; nothing is allowed after it."""
        return bool(self._matcher.is_terminated())

    @property
    def complete(self) -> bool:
        """Whether the text up to here is whole, so that it may end now."""
        return bool(self._matcher.is_completed())

    def forced(self) -> list[int]:
        """The tokens that must come next, as far as there is only one way on."""
        return [int(token) for token in self._matcher.find_jump_forward_tokens()]

    def rollback(self, tokens: int) -> None:
        """Take back the last accepted `tokens`."""
        self._matcher.rollback(tokens)

    def fork(self) -> GrammarState:
        """An independent state at the same place."""
        return GrammarState(self._matcher.fork())


class Grammar:
    """A compiled grammar. `compiled` is xgrammar's."""

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled

    def start(self) -> GrammarState:
        """A state at the beginning."""
        import xgrammar

        return GrammarState(xgrammar.GrammarMatcher(self.compiled))


class GrammarCompiler:
    """Compiles grammars for one vocabulary and keeps the newest, up to a byte limit.

    `vocab_size` is the width of the logits, which may exceed the tokenizer's. Every method raises
    RequestError(code="invalid_schema"), whose `param` the caller gives, for what can't be compiled. May be called from
    several threads. `shown` are special tokens that are text all the same: what begins and ends calls and reasoning.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        vocab_size: int,
        eos_ids: Iterable[int],
        *,
        shown: Collection[str] = (),
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        import xgrammar

        ends = frozenset(eos_ids)
        vocabulary = [
            b"" if token_id in ends else _text_bytes(tokenizer, token_id, shown) for token_id in range(vocab_size)
        ]
        info = xgrammar.TokenizerInfo(
            vocabulary,
            vocab_type=xgrammar.VocabType.RAW,
            vocab_size=vocab_size,
            stop_token_ids=sorted(ends),
        )
        self.vocab_size = vocab_size
        # xgrammar's own cache finds what differs in nothing that it compares; ours comes before all other work.
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=_THREADS, cache_limit_bytes=cache_bytes // 2)
        self.cache = CompiledCache(cache_bytes // 2)

    @property
    def mask_words(self) -> int:
        """The length of a row's bitmask."""
        return (self.vocab_size + 31) // 32

    def json_object(self) -> Grammar:
        """Any JSON object."""
        return self.json_schema({"type": "object"}, strict=False)

    def json_schema(
        self, schema: Any, strict: bool = True, *, param: str = "response_format.json_schema.schema"
    ) -> Grammar:
        """JSON that `schema` allows. `strict`: without properties that it doesn't name."""
        text = _dump(schema, param)

        def compile_schema() -> Any:
            import xgrammar

            check_schema(schema, param, enforce=True, closed=strict)
            source = json.dumps(matched_whole(schema), ensure_ascii=False)
            options: dict[str, Any] = {"strict_mode": strict, "max_whitespace_cnt": MAX_WHITESPACE}
            if not _bounds_strings(text):
                return self._compiler.compile_json_schema(source, **options)
            grammar = xgrammar.Grammar.from_json_schema(source, **options)
            return self._compiler.compile_grammar(_mended(str(grammar)))

        return self._compile("strict schema" if strict else "schema", text, compile_schema, param)

    def structural_tag(self, tag: Mapping[str, Any], *, param: str = "tools") -> Grammar:
        """Text with tagged parts, as a `ToolFormat` describes it.

        Where it holds `{"type": "json_schema", "json_schema": …, "strict": …}`, JSON stands on one line, as templates
        write it: with no white space to choose, more tokens are forced. Unless `strict`, what is costly isn't enforced.
        """

        def compile_tag() -> Any:
            return self._compiler.compile_structural_tag(json.dumps(_with_grammars(tag, param)))

        return self._compile("tag", _dump(tag, param), compile_tag, param)

    def regex(self, pattern: str, *, param: str = "regex") -> Grammar:
        """Text that matches the whole of `pattern`."""
        check_regex(pattern, param)
        return self._compile("regex", pattern, lambda: self._compiler.compile_regex(pattern), param)

    def ebnf(self, source: str, *, param: str = "ebnf") -> Grammar:
        """Text of the grammar `source`, which has a rule `root`."""
        _check_length(source, param)
        return self._compile("ebnf", source, lambda: self._compiler.compile_grammar(source), param)

    def either(self, first: Grammar, second: Grammar, *, param: str = "response_format") -> Grammar:
        """Text of one or of the other."""

        def unite() -> Any:
            import xgrammar

            both = xgrammar.Grammar.union(first.compiled.grammar, second.compiled.grammar)
            return self._compiler.compile_grammar(both)

        return self._compile("either", f"{first.compiled.grammar}\0{second.compiled.grammar}", unite, param)

    def behind(
        self, thought: Mapping[str, Any], answer: Grammar, *, optional: bool, param: str = "response_format"
    ) -> Grammar:
        """`answer` with the text of the structural tag `thought` in front, or also without where it is `optional`.

        Up to two line feeds stand between them, which a parser takes away. Where the answer itself may begin with
        one, it is always two, so that they can be told apart.
        """
        text = _dump(thought, param)

        def compile_behind() -> Any:
            import xgrammar

            own = answer.start().accepts("\n")
            space = xgrammar.Grammar.from_ebnf('root ::= "\\n\\n"' if own else 'root ::= "\\n"{0,2}')
            grammar = answer.compiled.grammar
            whole = xgrammar.Grammar.concat(xgrammar.Grammar.from_structural_tag(text), space, grammar)
            return self._compiler.compile_grammar(xgrammar.Grammar.union(whole, grammar) if optional else whole)

        source = f"{optional}\0{text}\0{answer.compiled.grammar}"
        return self._compile("behind", source, compile_behind, param)

    def _compile(self, kind: str, source: str, compile_source: Callable[[], Any], param: str) -> Grammar:
        try:
            return Grammar(self.cache.get(kind, source, compile_source))
        except RequestError:
            raise
        except (RuntimeError, ValueError, TypeError) as error:  # xgrammar has no type of its own for these
            raise invalid(_reason(error), param) from None


def _mended(ebnf: str) -> str:
    """A grammar of xgrammar's with its strings of bounded length made right, and fast to follow.

    Behind the least characters of a string without a longest length its rest is an ordinary string. A string so long
    that its length has to be counted holds no escapes.
    """
    rest = _STRING_REST.search(ebnf)

    def open_end(string: re.Match[str]) -> str:
        name, least, most = string.groups()
        return string[0] if int(most) >= 0 or rest is None else f"{name}{{{least}}} {rest[1]}"

    ebnf = _BOUNDED_STRING.sub(open_end, ebnf)
    longest = {name: int(count) for name, count in _REPEATED.findall(ebnf)}

    def mend(rule: re.Match[str]) -> str:
        counted = longest.get(rule[1], 0) >= COUNTED
        return f"{rule[1]} ::= {_BOUNDED_LONG if counted else _BOUNDED_MENDED}"

    return _BOUNDED_RULE.sub(mend, ebnf)


def _text_bytes(tokenizer: Tokenizer, token_id: int, shown: Collection[str]) -> bytes:
    """A token as text. Other special tokens are none: without bytes, no grammar ever allows one, except to stop."""
    if not tokenizer.is_special(token_id):
        return tokenizer.token_bytes(token_id)
    text = tokenizer.token_bytes(token_id)
    return text if text.decode("utf-8", "replace") in shown else b""


def _with_grammars(node: Any, param: str) -> Any:
    """A structural tag whose JSON schemas are grammars of one-line JSON. They are checked first."""
    if isinstance(node, list):
        return [_with_grammars(item, param) for item in node]
    if not isinstance(node, Mapping):
        return node
    if node.get("type") != "json_schema":
        return {key: _with_grammars(value, param) for key, value in node.items()}
    strict = node.get("strict") is True
    if "style" in node:  # it writes no JSON around the values
        return {**node, "json_schema": _enforced(node["json_schema"], strict, param, IN_XML)}
    return {"type": "grammar", "grammar": _one_line(node["json_schema"], strict, param)}


def _enforced(schema: Any, strict: bool, param: str, around: str) -> Any:
    """The schema to compile for a tool: all of it if `strict`, else what a grammar can hold a call to."""
    check_schema(schema, param, enforce=strict, closed=True)
    return matched_whole(schema if strict else loosened(schema).schema, around)


def _one_line(schema: Any, strict: bool, param: str) -> str:
    import xgrammar

    text = json.dumps(_enforced(schema, strict, param, IN_JSON), ensure_ascii=False)
    grammar = str(xgrammar.Grammar.from_json_schema(text, any_whitespace=False, separators=(", ", ": ")))
    return _mended(grammar) if _bounds_strings(text) else grammar


def _bounds_strings(text: str) -> bool:
    return '"minLength"' in text or '"maxLength"' in text


def _dump(value: Any, param: str) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        check_schema(value, param, enforce=False)  # says it better, if it knows
        raise invalid(str(error), param) from None
    _check_length(text, param)
    return text


def _check_length(source: str, param: str) -> None:
    if len(source) > MAX_SOURCE:
        raise invalid(f"longer than {MAX_SOURCE} characters", param)


def _reason(error: Exception) -> str:
    """xgrammar's message without the time and the source line in front."""
    first = str(error).strip().partition("\n")[0]
    return first.partition("] ")[2].partition(": ")[2] or first or type(error).__name__
