"""Pages that no browser can load, refused before anything is loaded."""

import pytest

from fastopen.common.errors import InputError
from fastopen.experiments import Experiment
from fastopen.pages import ImportedPage
from fastopen.workflows.run import check_documents
from made_up_loads import page
from made_up_run import made_up_plan


def experiment(kind: str) -> Experiment:
    return made_up_plan([page()], setups=[{"client": {"kind": kind}}]).experiment


@pytest.mark.parametrize("status", [200, 304])
def test_a_document_out_of_the_recorders_cache_is_refused_for_a_browser_alone(status: int) -> None:
    root = page().resources[0].model_copy(update={"status": status, "body_bytes": 0})
    imported = [ImportedPage(page().model_copy(update={"resources": (root,)}))]
    check_documents(experiment("loader"), imported)
    if status == 200:
        check_documents(experiment("chromium"), imported)
    else:
        with pytest.raises(InputError, match="304"):
            check_documents(experiment("chromium"), imported)
