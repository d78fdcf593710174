"""Make the entries of docs/invalid-loads.md."""

from fastopen.report.invalid_kinds import EXPLANATIONS


def entries() -> str:
    """Return a heading with meaning, cause and remedy for each kind."""
    return "".join(
        f"\n### {kind}\n{one.meaning}\n\n- Cause: {one.cause}\n- Remedy: {one.remedy}\n"
        for kind, one in EXPLANATIONS.items()
    )
