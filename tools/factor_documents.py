"""Make the tables of docs/factors.md: the factors of each part of a job, and the named networks."""

from fastopen.experiments import FACTORS, NAMED_NETWORKS, Factor

TITLES = {
    "network": "The network",
    "client": "The client",
    "origins": "Origins",
    "tls": "TLS",
    "tcp": "TCP, of both ends",
    "engine": "The engine",
    "arm": "What is compared",
}


def factor_tables() -> str:
    """Return a Markdown heading and a table of factors for each part of a job."""
    return "\n".join(
        f"## {title}\n" + "".join(f"{row}\n" for row in _rows([one for one in FACTORS if one.part == part]))
        for part, title in TITLES.items()
    )


def network_table() -> str:
    """Return a Markdown table of the named networks."""
    rows = "".join(
        f"| `{name}` | {one.rtt} | {one.down} | {one.up} | {one.source} |\n"
        for name, one in NAMED_NETWORKS.items()
    )
    return "| name | RTT | down | up | source |\n|---|---:|---:|---:|---|\n" + rows


def _rows(factors: list[Factor]) -> list[str]:
    head = [
        "| option | key in TOML | argument | what it is | values | default | columns |",
        "|---|---|---|---|---|---|---|",
    ]
    return head + [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in _cells(factor)) + " |" for factor in factors
    ]


def _cells(factor: Factor) -> list[str]:
    values = (
        factor.bounds or ", ".join(f"`{one}`" for one in factor.accepted) or f"such as `{factor.example}`"
    )
    default = factor.default_meaning or (f"`{factor.usual}`" if factor.usual else "none")
    unit = f" ({factor.quantity.unit})" if factor.quantity.unit else ""
    columns = ", ".join(f"`{name}`" for name in factor.export)
    names = [f"`{factor.flag}`", f"`{factor.toml}`", f"`{factor.argument}`"]
    return [*names, factor.meaning, values, default, columns + unit]
