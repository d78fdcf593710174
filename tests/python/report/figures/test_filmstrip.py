"""Film strips: the screen contents during a load, as one still image and as an animation."""

import io
import json
from base64 import b64encode
from pathlib import Path

import pytest
from PIL import Image

from fastopen.analysis.attribution import analyse_run
from fastopen.common.errors import InputError
from fastopen.contract import LoadRecord
from fastopen.report.figures.filmstrip import (
    CHANGED,
    GAP,
    LABEL,
    LINE,
    THUMBNAIL,
    Film,
    export_filmstrips,
    strip,
)
from fastopen.runs import RunStore
from made_up_run import load_data, made_up_page, made_up_plan

MS = 1_000_000


def picture(colour: str, width: int = 480) -> str:
    file = io.BytesIO()
    Image.new("RGB", (width, 240), colour).save(file, "JPEG")
    return b64encode(file.getvalue()).decode()


def kept(folder: Path, frames: list[tuple[int, str]]) -> Path:
    """Write a run in which each load shows `frames` (time in ms, JPEG in Base64). Return its folder."""
    client = {"kind": "chromium", "filmstrip": True}
    plan = made_up_plan([made_up_page("p")], rtts_ms=(20,), repeats=1, setups=[{"client": client}])
    planned = plan.jobs[0]
    shown = [{"at_ns": at_ms * MS, "jpeg": jpeg} for at_ms, jpeg in frames]
    times = dict.fromkeys(("load_event_ns", "dom_content_loaded_ns"), 1)
    paints = dict.fromkeys(("first_contentful_paint_ns", "largest_contentful_paint_ns"))
    with RunStore.create(folder, plan, {}) as store:
        for load in planned.job.loads:
            data = load_data(planned, load.cookies, 0) | {"id": load.id}
            data["browser"] = {"product": "Chrome/1", **times, **paints, "frames": shown}
            raw = json.dumps(data)
            store.add_load(planned, LoadRecord.model_validate_json(raw), raw)
        store.set_status("finished")
    return folder


def export(run: Path) -> int:
    with RunStore.open(run) as store:
        return export_filmstrips(analyse_run(store), run, run / "strips", watch=lambda _: None)


def test_each_comparison_becomes_a_still_and_a_moving_picture(tmp_path: Path) -> None:
    run = kept(tmp_path / "kept", [(0, picture("white")), (30, picture("red"))])
    assert export(run) == 1
    assert sorted(path.name for path in (run / "strips").iterdir()) == ["001-p-20-ms.gif", "001-p-20-ms.png"]
    with Image.open(run / "strips" / "001-p-20-ms.gif") as moving:
        assert getattr(moving, "n_frames", 1) > 1


def test_a_still_has_a_row_a_load_and_frames_what_has_changed() -> None:
    white, red = (Image.new("RGB", (480, 240), colour) for colour in ("white", "red"))
    films = [
        Film("without", 400.0, (0.0, 150.0), (white, red)),
        Film("with", 200.0, (0.0, 50.0), (white, red)),
    ]
    still = strip("p", films)
    # From 0 to 600 ms in steps of 100 ms are seven pictures.
    assert still.width == LABEL + 7 * (THUMBNAIL + GAP) + GAP
    top, height = 2 * LINE + GAP, THUMBNAIL // 2
    rows = []
    for row in range(2):
        middle = top + row * (height + LINE + GAP) + height // 2
        lefts = [LABEL + column * (THUMBNAIL + GAP) for column in range(7)]
        colours = ["red" if still.getpixel((left + 90, middle)) == (255, 0, 0) else "white" for left in lefts]
        framed = [still.getpixel((left - 2, middle)) == tuple(bytes.fromhex(CHANGED[1:])) for left in lefts]
        rows.append((colours.index("red"), framed.index(True), sum(framed)))
    assert rows == [(2, 2, 1), (1, 1, 1)]


def test_a_run_without_pictures_says_how_to_have_them(tmp_path: Path) -> None:
    run = kept(tmp_path / "kept", [])
    with pytest.raises(InputError, match=r"has no film strips; .*--filmstrip"):
        export(run)
    assert not (run / "strips").exists()


@pytest.mark.parametrize("jpeg", ["", "/9j/2Q==", "no base64", picture("red", 4000)])
def test_a_picture_that_no_world_wrote_is_an_error_in_one_line(tmp_path: Path, jpeg: str) -> None:
    run = kept(tmp_path / "kept", [(0, jpeg)])
    with pytest.raises(InputError, match="a stored picture is damaged"):
        export(run)
