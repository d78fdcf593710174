"""Generate JSON Schemas and tables for documents from the contract's models."""

import ast
import inspect
import json
import re
import textwrap
from typing import Any, Final

from fastopen.contract import (
    client,
    invalid_kinds,
    load_record,
    network,
    origins,
    records,
)
from fastopen.contract import job as jobs
from fastopen.contract.invalid_kinds import InvalidKind
from fastopen.contract.job import Job
from fastopen.pages import model as pages

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
CLASSES: Final = {
    name: one
    for module in (
        *(pages, network, client, origins, jobs),
        *(records, invalid_kinds, load_record),
    )
    for name, one in vars(module).items()
    if inspect.isclass(one) and one.__module__ == module.__name__
}
Json = dict[str, Any]
# Descriptions of keys that several models have, used if a model does not describe the key.
SHARED: Final = {
    "type": "The kind of record.",
    "job": "The id of the job.",
    "down": "To the client.",
    "up": "From the client.",
    "down_bit_per_s": "To the client.",
    "up_bit_per_s": "From the client.",
    "id": "As the job has it.",
    "transport": "As the job has it.",
    "cookies": "As the job has it.",
    "version": "The version of TLS.",
}


def job_schema() -> str:
    """Return the JSON Schema of a job. It does not express rules that relate several keys."""
    return _text({"$schema": DIALECT, **_described(Job.model_json_schema(), "Job")})


def record_schema() -> str:
    """Return the JSON Schema of the program's records. All keys are required, and other keys are refused."""
    schema = records.RECORDS.json_schema(mode="serialization")
    for model in schema["$defs"].values():
        if "properties" in model:
            model["required"] = list(model["properties"])
            model["additionalProperties"] = False
            for key in model["properties"].values():
                key.pop("default", None)
    # Readers accept any kind, because later versions may add some. `fault` is left out, because only the
    # Python package writes it, if the world died.
    kinds = [kind.value for kind in InvalidKind if kind is not InvalidKind.FAULT]
    schema["$defs"]["Invalid"]["properties"]["kind"] = {"type": "string", "enum": kinds}
    del schema["$defs"]["InvalidKind"]
    schema["$defs"]["LoadRecord"]["properties"]["link"] = {"$ref": "#/$defs/Link"}
    return _text({"$schema": DIALECT, **_described(schema, None)})


def _text(document: Json) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _described(schema: Json, name: str | None) -> Json:
    """Remove pydantic's titles from a schema, and add the docstrings of models and keys as descriptions."""
    for title, model in [*schema.get("$defs", {}).items(), *([] if name is None else [(name, schema)])]:
        model["description"] = _one_line(CLASSES[title].__doc__)
        texts = docstrings(CLASSES[title])
        for key, value in model["properties"].items():
            value["description"] = texts.get(key) or SHARED.get(key) or _of_part(value)
    _drop_titles(schema)
    return schema


def _of_part(value: Json) -> str:
    """Return the first sentence of the docstring of a key's model; empty if the key's type is not a model."""
    (part,) = [one["$ref"] for one in (value, *value.get("anyOf", ())) if "$ref" in one] or [""]
    if not part:
        return ""
    return _one_line(CLASSES[part.rpartition("/")[2]].__doc__).partition(". ")[0].rstrip(".") + "."


def _drop_titles(value: Any) -> None:
    if isinstance(value, list):
        for one in value:
            _drop_titles(one)
    if isinstance(value, dict):
        if isinstance(value.get("title"), str):
            del value["title"]
        for one in value.values():
            _drop_titles(one)


def docstrings(of: type) -> dict[str, str]:
    """Map the names of a class's attributes to their docstrings, each joined into one line."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(of))).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for named, text in zip(body.body, body.body[1:], strict=False):
        match named, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str() as written)),
            ):
                found[name] = _one_line(written)
    return found


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


# --- Tables ---


def page_tables() -> str:
    """Return the Markdown tables of a page and of its resources."""
    return _tables(json.loads(job_schema()), ("Page", "Resource"))


def job_tables() -> str:
    """Return the Markdown tables of a job and of all its parts except the page."""
    schema = json.loads(job_schema())
    schema["$defs"]["Job"] = schema
    names = [name for name in schema["$defs"] if name not in ("Job", "Page", "Resource")]
    order = [name for name in CLASSES if name in names]
    return _tables(schema, ("Job", *order))


def record_tables() -> str:
    """Return the Markdown tables of the records, of their parts, and of the kinds of invalid loads."""
    schema = json.loads(record_schema())
    whole = ("WorldRecord", "LoadRecord", "TransactionsRecord", "PacketsRecord", "EndRecord", "ErrorRecord")
    parts = [name for name in CLASSES if name in schema["$defs"] and name not in whole]
    kinds = "\n".join(f"| `{InvalidKind[name]}` | {text} |" for name, text in docstrings(InvalidKind).items())
    table = f"### Kinds of invalid loads\n| kind | meaning |\n|---|---|\n{kinds}\n"
    return _tables(schema, (*whole, *parts)) + "\n" + table


def _tables(schema: Json, names: tuple[str, ...]) -> str:
    return "\n".join(_table(name, schema["$defs"][name]) for name in names)


def _table(name: str, model: Json) -> str:
    required = model.get("required", ())
    rows = [
        f"| `{key}` | {_type(value)}{_default(value, key in required)} | {value['description']} |"
        for key, value in model["properties"].items()
    ]
    head = f"### {_words(name)}\n{model['description']}\n\n| key | type | meaning |\n|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()


def _default(value: Json, required: bool) -> str:
    if required:
        return ""
    return f", default `{json.dumps(value['default'])}`" if "default" in value else ", may be left out"


def _type(value: Json) -> str:
    """Return the type of a key in words, with its range."""
    if "$ref" in value:
        words = _words(value["$ref"].rpartition("/")[2])
        return f"[{words.lower()}](#{words.lower().replace(' ', '-')})"
    if "anyOf" in value:
        return " or ".join(_type(one) for one in value["anyOf"])
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"])
    kinds = {"integer": "int", "number": "float", "boolean": "bool", "object": "object", "null": "null"}
    kind: str = value["type"]
    if kind == "array":
        count = _range(value.get("minItems", 0), value.get("maxItems")).lstrip(", ")
        return f"list of {count}{' ' if count else ''}{_type(value['items'])}"
    if kind == "object":
        return f"object of name to {_type(value['additionalProperties'])}"
    if kind == "string":
        return "string, not empty" if value.get("minLength") else "string"
    return kinds[kind] + _range(value.get("minimum", 0), value.get("maximum"))


def _range(least: float, most: float | None) -> str:
    if most is None:
        return f", at least {_number(least)}" if least else ""
    return f", {_number(least)}" if least == most else f", {_number(least)} to {_number(most)}"


def _number(value: float) -> str:
    named = {2**40: "2^40", 2**63 - 1: "2^63 - 1", 10**12: "10^12", 10**9: "10^9"}
    return named.get(int(value)) or f"{value:,}"
