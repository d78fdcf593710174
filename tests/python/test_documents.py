"""Documents name all that they are meant to name, and lead to what is there."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click import Command, Group

from fastopen.cli.commands import Commands
from fastopen.contract.records import Record
from fastopen.experiments import FACTORS, packaged_experiments
from fastopen.experiments.clients import KINDS
from fastopen.pages.library import packaged_pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("tests/*/README.md")])
