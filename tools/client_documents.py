"""Make the table of clients in docs/clients.md from `CLIENTS`."""

from fastopen.contract.client_kinds import CLIENTS


def client_table() -> str:
    """Return a Markdown table with a row for each client."""
    rows = ["| client | loads | HTTP in cleartext | HTTP over TLS | needs |", "|---|---|---|---|---|"]
    for one in CLIENTS.values():
        spoken = (", ".join(sorted(versions)) for versions in (one.http_in_the_clear, one.http_over_tls))
        needs = f"`apt install {one.package}`" if one.package else ""
        rows.append(f"| {' | '.join((f'`{one.label}`', one.meaning, *spoken, needs))} |")
    return "\n".join(rows) + "\n"
