"""What counts as a definition and as a reference, in the tree-sitter grammar of each language.

In `definitions`, a match is a `@class`, a `@function` (what lies in it is local, and no tag) or a `@scope`, with its
`@name`. Signatures end where the field `body` begins. In `references`, a `@member` is a name behind a dot: whose it is,
the text does not say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True)
class Language:
    package: str
    """Of the grammar."""
    definitions: str
    references: str
    function: str = "language"
    """Of the package, which gives the grammar."""

    def grammar(self) -> object:
        load: Callable[[], object] = getattr(import_module(self.package), self.function)
        return load()


_PYTHON = Language(
    "tree_sitter_python",
    """
    (class_definition name: (identifier) @name) @class
    (function_definition name: (identifier) @name) @function
    """,
    """
    (call function: [(identifier) @name (attribute attribute: (identifier) @member)])
    (class_definition superclasses: (argument_list [(identifier) @name (attribute attribute: (identifier) @name)]))
    (type (identifier) @name)
    (decorator (identifier) @name)
    (import_from_statement name: (dotted_name (identifier) @name))
    """,
)
_SCRIPT_DEFINITIONS = """
    (function_declaration name: (identifier) @name) @function
    (generator_function_declaration name: (identifier) @name) @function
    (method_definition name: (property_identifier) @name) @function
    (lexical_declaration
      (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)])) @function
    """
_SCRIPT_REFERENCES = """
    (call_expression function: [(identifier) @name (member_expression property: (property_identifier) @member)])
    (new_expression constructor: (identifier) @name)
    (import_specifier name: (identifier) @name)
    """
_TAGS_OF_JSX = """
    (jsx_opening_element name: (identifier) @name)
    (jsx_self_closing_element name: (identifier) @name)
    """
_JAVASCRIPT = Language(
    "tree_sitter_javascript",
    "(class_declaration name: (identifier) @name) @class" + _SCRIPT_DEFINITIONS,
    "(class_heritage (identifier) @name)" + _SCRIPT_REFERENCES + _TAGS_OF_JSX,
)
_TYPED_DEFINITIONS = (
    """
    (class_declaration name: (type_identifier) @name) @class
    (abstract_class_declaration name: (type_identifier) @name) @class
    (interface_declaration name: (type_identifier) @name) @class
    (enum_declaration name: (identifier) @name) @class
    (type_alias_declaration name: (type_identifier) @name) @function
    (internal_module name: (identifier) @name) @scope
    """
    + _SCRIPT_DEFINITIONS
)
_TYPED_REFERENCES = "(type_identifier) @name (extends_clause value: (identifier) @name)" + _SCRIPT_REFERENCES
_TYPESCRIPT = Language("tree_sitter_typescript", _TYPED_DEFINITIONS, _TYPED_REFERENCES, "language_typescript")
_TSX = Language("tree_sitter_typescript", _TYPED_DEFINITIONS, _TYPED_REFERENCES + _TAGS_OF_JSX, "language_tsx")
_C_DEFINITIONS = """
    (struct_specifier name: (type_identifier) @name body: (_)) @class
    (union_specifier name: (type_identifier) @name body: (_)) @class
    (enum_specifier name: (type_identifier) @name body: (_)) @class
    (type_definition declarator: (type_identifier) @name) @function
    (preproc_function_def name: (identifier) @name) @function
    (function_definition declarator: (function_declarator declarator: (identifier) @name)) @function
    (function_definition
      declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))) @function
    """
_C_REFERENCES = """
    (call_expression function: (identifier) @name)
    (call_expression function: (field_expression field: (field_identifier) @member))
    (type_identifier) @name
    """
_C = Language("tree_sitter_c", _C_DEFINITIONS, _C_REFERENCES)
_CPP = Language(
    "tree_sitter_cpp",
    _C_DEFINITIONS
    + """
    (class_specifier name: (type_identifier) @name body: (_)) @class
    (namespace_definition name: (_) @name) @scope
    (alias_declaration name: (type_identifier) @name) @function
    (function_definition
      declarator: (function_declarator declarator: [(field_identifier) (destructor_name) (operator_name)] @name))
      @function
    (function_definition
      declarator: (function_declarator declarator: (qualified_identifier name: (identifier) @name))) @function
    (function_definition declarator: (reference_declarator (function_declarator declarator: (_) @name))) @function
    """,
    _C_REFERENCES
    + """
    (call_expression function: (qualified_identifier name: (identifier) @name))
    (template_function name: (identifier) @name)
    """,
)
_GO = Language(
    "tree_sitter_go",
    """
    (function_declaration name: (identifier) @name) @function
    (method_declaration name: (field_identifier) @name) @function
    (type_declaration (type_spec name: (type_identifier) @name)) @class
    """,
    """
    (call_expression function: [(identifier) @name (selector_expression field: (field_identifier) @member)])
    (type_identifier) @name
    """,
)
_RUST = Language(
    "tree_sitter_rust",
    """
    (function_item name: (identifier) @name) @function
    (function_signature_item name: (identifier) @name) @function
    (struct_item name: (type_identifier) @name) @class
    (enum_item name: (type_identifier) @name) @class
    (union_item name: (type_identifier) @name) @class
    (trait_item name: (type_identifier) @name) @class
    (type_item name: (type_identifier) @name) @function
    (macro_definition name: (identifier) @name) @function
    (impl_item type: (_) @name) @scope
    (mod_item name: (identifier) @name body: (_)) @scope
    """,
    """
    (call_expression function: [
      (identifier) @name
      (scoped_identifier name: (identifier) @name)
      (field_expression field: (field_identifier) @member)
    ])
    (macro_invocation macro: (identifier) @name)
    (type_identifier) @name
    """,
)
_JAVA = Language(
    "tree_sitter_java",
    """
    (class_declaration name: (identifier) @name) @class
    (interface_declaration name: (identifier) @name) @class
    (enum_declaration name: (identifier) @name) @class
    (record_declaration name: (identifier) @name) @class
    (annotation_type_declaration name: (identifier) @name) @class
    (method_declaration name: (identifier) @name) @function
    (constructor_declaration name: (identifier) @name) @function
    """,
    """
    (method_invocation name: (identifier) @member)
    (type_identifier) @name
    """,
)

BY_SUFFIX: dict[str, Language] = {
    suffix: language
    for language, suffixes in (
        (_PYTHON, ".py .pyi"),
        (_JAVASCRIPT, ".js .jsx .mjs .cjs"),
        (_TYPESCRIPT, ".ts .mts .cts"),
        (_TSX, ".tsx"),
        (_C, ".c"),
        (_CPP, ".h .hh .hpp .hxx .cc .cpp .cxx"),
        (_GO, ".go"),
        (_RUST, ".rs"),
        (_JAVA, ".java"),
    )
    for suffix in suffixes.split()
}


def language_of(path: str) -> Language | None:
    return BY_SUFFIX.get("." + path.rpartition(".")[2].lower()) if "." in path else None
