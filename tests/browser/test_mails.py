"""Mails as a browser draws them: light and dark, wide and on a telephone. Run by `make browser`."""

from dataclasses import replace

import pytest

from everwhen.alerts.texts import Overrides, Part, preview, render, sample
from everwhen.alerts.texts.styles import DARK, LIGHT
from tests.browser.page import hexadecimal, look_at
from tests.colours import contrast

pytestmark = pytest.mark.timeout(300)

ENOUGH = 4.5


def long_message():
    message = sample("run.dead")
    occasion = replace(message.shown[0], subject="x" * 300, error="E" * 5000, remedy="r" * 900, tags=("t" * 90,) * 20)
    return replace(message, shown=(occasion,), tenant="t" * 200, subscriptions=("s" * 200,))


MAILS = {
    "dead": lambda: preview("run.dead", Overrides()),
    "late": lambda: preview("run.late", Overrides()),
    "recovered": lambda: preview("run.recovered", Overrides()),
    "test": lambda: preview("channel.test", Overrides()),
    "digest": lambda: preview("digest", Overrides()),
    "long": lambda: render(long_message()),
    "note": lambda: preview("run.dead", Overrides({("run.dead", Part.HTML): "<p>open"})),
}


@pytest.fixture(params=MAILS)
def html(request):
    return MAILS[request.param]().html


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 900])
def test_a_mail_fits_and_can_be_read(html, tmp_path, width, scheme):
    seen = look_at(html, tmp_path, width=width, scheme=scheme)

    assert seen.width == width
    assert seen.scroll <= width
    assert seen.beyond == []
    assert seen.loaded == 0
    assert len(seen.texts) > 5
    assert faint(seen) == []
    page = (LIGHT if scheme == "light" else DARK).page
    assert page in {hexadecimal(each["ground"]) for each in seen.texts}


def faint(seen):
    return [each for each in seen.texts if contrast(hexadecimal(each["colour"]), hexadecimal(each["ground"])) < ENOUGH]


def test_what_overflows_and_what_is_faint_is_found_out(tmp_path):
    html = '<body style="margin:0"><p style="width:500px;color:#999;background-color:#fff">faint and wide</p></body>'

    seen = look_at(html, tmp_path, width=360, scheme="light")

    assert seen.scroll > 360
    assert len(seen.beyond) == 1
    assert len(faint(seen)) == 1
