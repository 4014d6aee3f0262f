"""A tenant's own templates: they are used, they cannot do harm, and where they fail no alert is lost."""

from dataclasses import replace

import pytest

from everwhen.alerts.texts import Overrides, Part, check_override, preview, render, sample, source_of
from everwhen.alerts.texts.parts import ANY, KINDS
from everwhen.errors import InvalidInput
from tests.alerts.texts.reading import Mail

EVIL = '"><img src=x onerror=alert(1)><!channel>{{ 7*7 }}'


def with_name(name, kind="run.dead"):
    message = sample(kind)
    return replace(message, shown=(replace(message.shown[0], subject=name),))


def own(part, source, kind="run.dead"):
    return Overrides({(kind, part): source})


def test_a_subject_of_ones_own():
    assert preview("run.dead", own(Part.SUBJECT, "[{{ tenant }}]\n {{ occasion.name }}\n")).subject == (
        "[acme] nightly-report"
    )


def test_a_text_of_ones_own_keeps_the_small_print():
    text = preview("run.dead", own(Part.TEXT, "Call Ada: {{ occasion.name }}")).text

    assert text.startswith("Call Ada: nightly-report\n\n--\nSent by Everwhen")
    assert "Unsubscribe: https://" in text


def test_html_of_ones_own_stands_in_our_frame():
    html = preview("run.dead", own(Part.HTML, '<p style="{{ style.lead }}">{{ occasion.name }}</p>')).html

    assert ">nightly-report</p>" in html
    assert "@media (prefers-color-scheme:dark)" in html
    assert Mail(html).wrong == []


def test_slack_of_ones_own_may_ping_where_it_says_so_itself():
    blocks = preview("run.dead", own(Part.SLACK, "<!here> {{ occasion.name }}")).blocks

    assert blocks[1]["text"]["text"] == "<!here> nightly-report"


def test_the_kinds_own_template_goes_before_the_one_for_any():
    both = Overrides({("run.dead", Part.SUBJECT): "own", (ANY, Part.SUBJECT): "any"})

    assert preview("run.dead", both).subject == "own"
    assert preview("run.late", both).subject == "any"
    assert preview("digest", both).subject.startswith("390 runs dead")


def test_a_digest_has_templates_of_its_own():
    source = "{{ total|grouped }}: {% for each in counts %}{{ each.words }}; {% endfor %}"

    assert preview("digest", own(Part.SUBJECT, source, "digest")).subject == (
        "432: 390 runs dead; 29 runs late; 12 runs missed; 1 recovery;"
    )


@pytest.mark.parametrize(
    ("part", "source"),
    [
        (Part.SUBJECT, "{{ misspelt }}"),
        (Part.SUBJECT, "{{ occasion.due }}"),
        (Part.TEXT, "{% if %}"),
        (Part.TEXT, "x" * 20_000),
        (Part.HTML, "<script>alert(1)</script>"),
        (Part.HTML, "<p>open"),
        (Part.SLACK, "<{{ occasion.name }}>"),
        (Part.SLACK, " {{ occasion.due }} "),
    ],
)
def test_a_template_that_cannot_be_used_loses_no_alert(part, source):
    built_in = preview("run.dead", Overrides())

    rendered = preview("run.dead", own(part, source))

    assert rendered.subject == built_in.subject
    note = f"The tenant's template for run.dead, part {part}, was not used (line 1: "
    for text in (rendered.text, "".join(Mail(rendered.html).text), str(rendered.blocks[-1])):
        assert note.replace("'", "\\'") in text or note in text
    assert rendered.text.partition("--")[0] == built_in.text.partition("--")[0]


def test_a_defect_of_ours_loses_no_alert_either(monkeypatch):
    def fail(*_args, **_kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr("everwhen.alerts.texts.rendering.written", fail)

    text = preview("run.dead", own(Part.TEXT, "x")).text

    assert text.startswith("A run of nightly-report is dead")
    assert "was not used (it failed)" in text


def test_data_is_escaped_in_html():
    html = render(with_name(EVIL), overrides=own(Part.HTML, "<p>{{ occasion.name }}</p>")).html

    assert "<p>&#34;&gt;&lt;img src=x onerror=alert(1)&gt;" in html
    assert Mail(html).wrong == []


@pytest.mark.parametrize(
    "source",
    [
        "<a href={{ occasion.name }}>x</a>",
        "<p {{ occasion.name }}>x</p>",
        "<{{ occasion.name }}>",
        '<a href="{{ occasion.name }}">x</a>',
        '<p style="{{ occasion.name }}">x</p>',
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        "javascript:alert(1)",
        "x onmouseover=alert(1)",
        'x" onmouseover="alert(1)',
        "script src=//evil.example",
        "background:url(//evil.example)",
        "position:fixed",
        "x\\65xpression(1)",
    ],
)
def test_data_cannot_become_markup_in_a_careless_template(source, name):
    mail = Mail(render(with_name(name), overrides=own(Part.HTML, source)).html)

    assert mail.wrong == []
    assert all(link.startswith("https://everwhen.example/") for link in mail.links)
    styles = " ".join(attributes.get("style") or "" for _, attributes in mail.elements)
    assert not any(word in styles for word in ("url(", "position", "xpression"))


@pytest.mark.parametrize(
    ("html", "message"),
    [
        ("<script>x</script>", "<script> is not among the elements"),
        ('<img src="https://x.example/p.png">', "<img> is not among the elements"),
        ("<style>p{}</style>", "<style> is not among the elements"),
        ("<svg></svg>", "<svg> is not among the elements"),
        ("<iframe></iframe>", "<iframe> is not among the elements"),
        ("<form></form>", "<form> is not among the elements"),
        ("<body>", "<body> is not among the elements"),
        ("<meta http-equiv='refresh'>", "<meta> is not among the elements"),
        ("<p onclick='x'>y</p>", "<p> may not have `onclick`"),
        ("<p id='x'>y</p>", "<p> may not have `id`"),
        ("<p href='https://x.example'>y</p>", "<p> may not have `href`"),
        ("<a href='javascript:x'>y</a>", "a link leads to http://"),
        ("<a href=' https://x.example'>y</a>", "a link leads to http://"),
        ("<a href='java&#10;script:x'>y</a>", "a link leads to http://"),
        ("<a href='data:text/html,x'>y</a>", "a link leads to http://"),
        ("<a href='//x.example'>y</a>", "a link leads to http://"),
        ("<p style='background:url(x)'>y</p>", "a style loads nothing"),
        ("<p style='width:expression(x)'>y</p>", "a style loads nothing"),
        ("<p style='background:image-set(x)'>y</p>", "a style loads nothing"),
        ("<p style='position:fixed'>y</p>", "a style loads nothing"),
        ("<p style='p\\6fsition:fixed'>y</p>", "a style loads nothing"),
        ("<p style='x:y;/**/'>y</p>", "a style loads nothing"),
        ("<p title=x>y</p>", "<p> is not written plainly"),
        ("<P>y</P>", "<p> is not written plainly"),
        ("<p title='<b>'>y</p>", "<p> is not written plainly"),
        ("<p title='a' title='b'>y</p>", "<p> has an attribute twice"),
        ("<p/>y", "<p/> has to be closed by </p>"),
        ("<p>y", "<p> is not closed"),
        ("<p><b>y</p></b>", "</p> closes nothing that is open; </b> is next"),
        ("</td></tr></table>", "</td> closes nothing that is open"),
        ("a < b <b>c</b>", "a `<` that begins no element"),
        ("<p", "a tag is not finished"),
        ("<!-- x -->", "comments are written as {# … #}"),
        ("<!doctype html>", "the frame has the document's type already"),
        ("<?xml version='1.0'?>", "processing instructions are not allowed"),
        ("<![CDATA[x]]>", "declarations are not allowed"),
        ("<p>ok</p>\n<b>\n<u></b></u>", "line 3"),
    ],
)
def test_html_that_a_mail_may_not_have_is_refused(html, message):
    with pytest.raises(InvalidInput) as told:
        check_override("run.dead", Part.HTML, html)

    assert message in told.value.errors[0].detail


@pytest.mark.parametrize(
    "html",
    [
        "<p>plain &amp; simple &lt;</p><br><hr/>",
        "<table width=\"100%\"><tr><td align='center' style='color:rgb(1,2,3)'>x</td></tr></table>",
        "<a href='https://x.example/a?b=1&amp;c=2'>x</a>",
        "<a href='mailto:ops@x.example'>x</a>",
        '<p class="ew-text" style="{{ style.text }};margin:0">{{ occasion.name }}</p>',
        '<span style="{{ occasion.pill }}">{{ occasion.word }}</span>',
    ],
)
def test_html_that_a_mail_may_have(html):
    check_override("run.dead", Part.HTML, html)


@pytest.mark.parametrize("source", ["<!{{ occasion.name }}>", "<@{{ tenant }}>", "<x|y>", "a < b", "<javascript:x|y>"])
def test_a_mark_of_slack_is_a_link_or_stands_in_the_template(source):
    with pytest.raises(InvalidInput, match="in what it makes"):
        check_override("run.dead", Part.SLACK, source)


def test_data_is_no_mark_of_slack():
    blocks = render(with_name(EVIL), overrides=own(Part.SLACK, "*{{ occasion.name }}*")).blocks

    assert "&lt;!channel&gt;" in blocks[1]["text"]["text"]


def test_long_texts_for_slack_are_cut_between_lines():
    source = "{% for each in occasions %}{{ each.error_line }}" + "y" * 900 + "\n{% endfor %}"

    blocks = preview("digest", own(Part.SLACK, source, "digest")).blocks

    sections = [block["text"]["text"] for block in blocks if block["type"] == "section"]
    assert sum(text.count("y" * 900) for text in sections) == 20
    assert all(len(text) <= 3000 for text in sections)


def test_a_line_that_no_section_can_hold_is_not_cut_within_an_escape():
    blocks = preview("run.dead", own(Part.SLACK, "x" * 2996 + "{{ '<' }}" + "x" * 50)).blocks

    assert blocks[1]["text"]["text"] == "x" * 2996 + "…"


@pytest.mark.parametrize("kind", ["run.unknown", "", "RUN.DEAD"])
def test_a_kind_that_there_is_not(kind):
    with pytest.raises(InvalidInput, match="There is no such kind of template"):
        check_override(kind, Part.TEXT, "x")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_begun_from_the_built_in_template(kind):
    for part in Part:
        check_override(kind, part, source_of(kind, part))


def test_a_template_for_any_kind_is_tried_with_each_of_them():
    with pytest.raises(InvalidInput, match="it makes no text"):
        check_override(ANY, Part.SUBJECT, "{% if occasion.kind != 'run.zombie' %}x{% endif %}")


def test_a_template_is_tried_with_little_known():
    with pytest.raises(InvalidInput, match="it makes no text"):
        check_override("run.dead", Part.SUBJECT, "{{ occasion.error_line }}")
