"""The language of templates: what it can do, and what every attempt to leave it, or to make it run on, comes to."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.alerts.texts import Part, check_override
from everwhen.alerts.texts.dialects import built_in, dialect_of
from everwhen.alerts.texts.facts import facts_of
from everwhen.alerts.texts.filters import FILTERS
from everwhen.alerts.texts.grammar import MOST_STEPS, TemplateProblem
from everwhen.alerts.texts.language import MOST_OUTPUT, MOST_SOURCE, run
from everwhen.alerts.texts.parts import KINDS
from everwhen.alerts.texts.samples import sample
from everwhen.errors import InvalidInput

TEXT = dialect_of(Part.TEXT, digest=False)
DIGEST = dialect_of(Part.TEXT, digest=True)
FACTS = facts_of(sample("run.dead"))


def made(source, *, digest=False):
    return run(source, facts_of(sample("digest")) if digest else FACTS, DIGEST if digest else TEXT)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ occasion.name }}", "nightly-report"),
        ("{{ occasion['name'] }}", "nightly-report"),
        ("{{ occasion.name|upper }}", "NIGHTLY-REPORT"),
        ("{{ occasion.name|upper|lower|capitalize }}", "Nightly-report"),
        ("{{ occasion.name|truncate(7) }}", "nightl…"),
        ("{{ occasion.tags|join(', ') }}", "finance, nightly"),
        ("{{ occasion.tags|length }}", "2"),
        ("{{ '  x '|trim }}", "x"),
        ("{{ 'a\nb'|indent(2) }}", "  a\n  b"),
        ("{{ 1234567|grouped }}", "1,234,567"),
        ("{% if occasion.attempt > 2 and not occasion.due %}last{% else %}more{% endif %}", "last"),
        ("{% if 'night' in occasion.name %}yes{% elif total == 1 %}one{% endif %}", "yes"),
        ("{% if 'finance' in occasion.tags %}yes{% endif %}", "yes"),
        ("{{ occasion.due or 'at once' }}", "at once"),
        ("{{ 'one' if total == 1 else 'many' }}", "one"),
        (
            "{% for tag in occasion.tags %}{{ loop.index }}:{{ tag }}{% if not loop.last %} {% endif %}{% endfor %}",
            None,
        ),
        ("{% for tag in occasion.tags if tag != 'nightly' %}{{ tag }}{% endfor %}", "finance"),
        ("{# nothing #}{% raw %}{{ 7*7 }}{% endraw %}", "{{ 7*7 }}"),
        ("{{ total }}{{ more }}", "10"),
    ],
)
def test_what_a_template_can_say(source, text):
    assert made(source) == (text or "1:finance 2:nightly")


@pytest.mark.parametrize("part", Part)
@pytest.mark.parametrize("kind", KINDS)
def test_the_built_in_templates_are_written_in_it(kind, part):
    check_override(kind, part, built_in(part, digest=kind == "digest"))


# What is known of sandboxes of Jinja: the ways to classes, to globals, to functions, to attributes by another name.
ESCAPES = [
    "{{ ''.__class__ }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__class__'] }}",
    "{{ ''['\\x5f\\x5fclass\\x5f\\x5f'] }}",
    "{{ occasion.__class__ }}",
    "{{ occasion['__class__'] }}",
    "{{ occasion.__init__.__globals__ }}",
    "{{ occasion.items() }}",
    "{{ occasion.items }}",
    "{{ occasion.get('name') }}",
    "{{ occasion.pop('name') }}",
    "{{ occasion.update({'name': 1}) }}",
    "{{ occasion.clear() }}",
    "{{ occasions.append(1) }}",
    "{{ occasions.__len__() }}",
    "{{ occasions[0].__class__ }}",
    "{{ occasion.name.format() }}",
    "{{ '{0.__class__}'.format(occasion) }}",
    "{{ '{x.__class__}'.format_map({'x': 1}) }}",
    "{{ '%s' % occasion }}",
    "{{ '%c' % 65 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ occasion|attr('__class__') }}",
    "{{ ''|attr('\\x5f\\x5fclass\\x5f\\x5f') }}",
    "{{ ()|attr('__class__') }}",
    "{{ occasions|map(attribute='__class__')|list }}",
    "{{ occasions|map('attr', '__class__')|first }}",
    "{{ occasions|groupby('__class__') }}",
    "{{ occasions|sort(attribute='__class__') }}",
    "{{ occasions|selectattr('__class__') }}",
    "{{ occasions|sum(start=occasion) }}",
    "{{ occasion|xmlattr }}",
    "{{ occasion|tojson }}",
    "{{ occasion|pprint }}",
    "{{ occasion|string }}",
    "{{ '<script>'|safe }}",
    "{{ 'x'|format(1) }}",
    "{{ 'x'|replace('x', 'y') }}",
    "{{ 'x'|urlize }}",
    "{{ self }}",
    "{{ self.__init__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ super() }}",
    "{{ caller() }}",
    "{{ varargs }}",
    "{{ kwargs }}",
    "{{ loop }}",
    "{% for each in occasion.tags %}{{ loop.__init__ }}{% endfor %}",
    "{% for each in occasion.tags %}{{ loop._iterator }}{% endfor %}",
    "{% for each in occasion.tags %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for each in occasion.tags %}{{ loop }}{% endfor %}",
    "{% for each in occasion.tags recursive %}{{ loop(occasion.tags) }}{% endfor %}",
    "{{ range(3) }}",
    "{{ dict(a=1) }}",
    "{{ lipsum() }}",
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{{ cycler('a').__init__.__globals__ }}",
    "{{ cycler.next }}",
    "{{ joiner('x') }}",
    "{{ joiner.__init__ }}",
    "{{ namespace(a=1) }}",
    "{% set ns = namespace(x=1) %}{% set ns.x = 2 %}",
    "{% set x = occasion %}",
    "{% set x %}y{% endset %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m(x=''.__class__) %}{% endmacro %}",
    "{% call m() %}{% endcall %}",
    "{% filter upper %}x{% endfilter %}",
    "{% include 'single.text.jinja' %}",
    "{% import 'x' as x %}",
    "{% from 'x' import y %}",
    "{% extends 'x' %}",
    "{% block b %}{% endblock %}",
    "{% with x = 1 %}{{ x }}{% endwith %}",
    "{% autoescape false %}{{ occasion.name }}{% endautoescape %}",
    "{% do occasions.append(1) %}",
    "{% debug %}",
    "{% trans %}x{% endtrans %}",
    "{{ request }}",
    "{{ config }}",
    "{{ url_for.__globals__ }}",
    "{{ g.pop.__globals__.__builtins__ }}",
    "{{ __builtins__ }}",
    "{{ __import__('os') }}",
    "{{ ''.join(['a']) }}",
    "{{ [].__class__.__base__ }}",
    "{{ ([]|list).__class__ }}",
    "{{ (occasion.name)()}}",
    "{{ occasion.name is defined }}",
    "{{ occasion.name is callable }}",
    "{{ occasion.name[0:3] }}",
    "{{ occasion.name[0] }}",
    "{{ occasion.tags[0] }}",
    "{{ occasion[occasion.name] }}",
    "{{ occasion.name if total }}",
    "{{ 1.5 }}",
    "{{ none }}",
    "{{ {'a': 1} }}",
    "{{ (1, 2) }}",
    "{{ [1] }}",
]
# What would take long or grow: none of it begins.
BOMBS = [
    "{{ 9**9**9 }}",
    "{{ 2**10000000 }}",
    "{{ 'a' * 1000000000 }}",
    "{{ [0] * 1000000000 }}",
    "{{ 10 // 0 }}",
    "{{ 1 % 0 }}",
    "{{ -1 }}",
    "{{ occasion.name + occasion.name }}",
    "{{ occasion.name ~ occasion.name }}",
    "{% for x in range(1000000000) %}x{% endfor %}",
    "{% for x in range(99999) %}{% for y in range(99999) %}{% endfor %}{% endfor %}",
    "{% for x in 'abc' %}{{ x }}{% endfor %}",
    "{% for x in [1,2,3] %}{{ x }}{% endfor %}",
    "{% for x in occasion %}{{ x }}{% endfor %}",
    "{% for x in 10 %}{% endfor %}",
    "{{ 'x'|center(1000000000) }}",
    "{{ 'x'|ljust(1000000000) }}",
    "{{ 'x'.ljust(1000000000) }}",
    "{{ 'x'|indent(1000000000) }}",
    "{{ 'x'|indent(-5) }}",
    "{{ 'x'|indent(width=5) }}",
    "{{ 'x'|indent(total) }}",
    "{{ 'x'|truncate(1000000000) }}",
    "{{ 'x'|wordwrap(1) }}",
    "{{ 'x'|join('y') }}",
    "{{ occasion.tags|join('" + "y" * 101 + "') }}",
    "{{ occasion.tags|join(1) }}",
    "{{ occasion.tags|join }}",
    "{{ occasion.tags|batch(2) }}",
    "{{ occasion.tags|random }}",
    "{{ " + "(" * 2000 + "1" + ")" * 2000 + " }}",
    "{{ " + "not " * 2000 + "1 }}",
    "{{ " + "1" * 10_000 + " }}",
    "{% if total %}" * 100 + "{% endif %}" * 100,
    "{{ 'x'" + "|upper" * 100 + " }}",
    "".join(f"{{% for x{n} in occasion.tags %}}" for n in range(5)) + "x" + "{% endfor %}" * 5,
    "{% for a in occasion.tags %}{% for b in occasion.tags %}"
    + "{{ total }}" * (MOST_STEPS // 400)
    + "{% endfor %}{% endfor %}",
    "x" * (MOST_SOURCE + 1),
    "é" * (MOST_SOURCE // 2 + 1),
]
MISTAKES = [
    ("{{ ocasion.name }}", "line 1: there is no `ocasion`; there are channel, counts,"),
    ("one\ntwo\n{{ occasion.nmae }}", "line 3: there is no `nmae` in it; there are at,"),
    ("{% if false %}\n{{ misspelt }}\n{% endif %}", "line 2: there is no `misspelt`"),
    ("{{ occasion }}", "line 1: a group of values cannot be printed"),
    ("{{ occasion.tags }}", "line 1: a list cannot be printed"),
    ("{{ occasion.name.first }}", "line 1: `first` is asked of a text, which has no names"),
    ("{{ occasion.name > 2 }}", "line 1: only numbers can be told apart by their size"),
    ("{{ 1 in occasion.tags }}", "line 1: `in` looks for a text in a text, or in a list of texts"),
    ("{{ occasion.attempt|upper }}", "line 1: the filter `upper` cannot take a number"),
    ("{{ (occasion.attempt or 'none')|upper }}", "line 1: the filter `upper` cannot take a text or a number"),
    ("{{ occasion.name|shout }}", "line 1: there is no filter `shout`; there are capitalize,"),
    ("{{ occasion or 'x' }}", "line 1: it would be a group of values or a text"),
    ("{{ occasion.name\n}", "line 2: unexpected '}'"),
    ("x\n{% if total %}", "line 2: Unexpected end of template"),
    ("{% for total in occasion.tags %}{% endfor %}", "line 1: a loop needs a name of its own: `total` is taken"),
    ("{% for loop in occasion.tags %}{% endfor %}", "line 1: a loop needs a name of its own: `loop` is taken"),
    ("{% for a, b in occasion.tags %}{% endfor %}", "line 1: a loop has one name"),
    ("{{ 'x' if total }}", "line 1: `if` within an expression needs its `else`"),
    ("{{ range(9) }}", "line 1: a call is not part of this language"),
    ("{% set x = 1 %}", "line 1: `set` is not part of this language"),
    ("a\n{{ 2 * 3 }}", "line 2: arithmetic is not part of this language"),
    ("{% include 'x' %}", "line 1: `include` is not part of this language"),
    ("{% frobnicate %}", "line 1: Encountered unknown tag 'frobnicate'."),
]


def test_there_are_enough_of_them():
    assert len(set(ESCAPES)) + len(set(BOMBS)) > 130


@pytest.mark.parametrize("source", [*ESCAPES, *BOMBS], ids=lambda source: source[:40])
def test_nothing_leaves_the_language(source):
    with pytest.raises(TemplateProblem):
        made(source)
    with pytest.raises(TemplateProblem):
        made("{% for each in occasions %}{% if not each.name %}" + source + "{% endif %}{% endfor %}", digest=True)


@pytest.mark.parametrize(("source", "message"), MISTAKES)
def test_a_mistake_is_told_with_its_line(source, message):
    with pytest.raises(InvalidInput) as told:
        check_override("run.dead", Part.TEXT, source)

    (error,) = told.value.errors
    assert error.code == "alert_template.invalid"
    assert error.pointer == "/source"
    assert error.detail.startswith(f"The template cannot be used: {message}")


@given(st.text(alphabet="{}%#()[]|.'\"_~*+-= \nabcxyz019", max_size=60))
def test_whatever_is_written_is_made_or_refused(source):
    with contextlib.suppress(TemplateProblem):  # and nothing else
        assert isinstance(made(source), str)


def test_the_costliest_template_that_is_allowed_ends():
    body = "{{ total }}" * 20
    source = "{% for a in occasions %}{% for b in occasions %}" + body + "{% endfor %}{% endfor %}"

    assert len(made(source, digest=True)) == 20 * 20 * 20 * 3


def test_what_it_makes_is_counted_while_it_is_made():
    source = "{% for a in occasions %}{% for b in occasions %}" + "x" * 1000 + "{% endfor %}{% endfor %}"

    with pytest.raises(TemplateProblem, match="more than 262,144 bytes"):
        made(source, digest=True)
    assert MOST_OUTPUT < 20 * 20 * 1000


@pytest.mark.parametrize("character", ["\0", "\x1b", "\ud800", "\x07"])
def test_what_cannot_be_stored_is_refused(character):
    with pytest.raises(InvalidInput, match="line 2: it has a character that cannot be stored"):
        check_override("run.dead", Part.TEXT, f"a\nb{character}")


def test_the_filters_are_the_language_own():
    assert set(FILTERS) == {
        "capitalize",
        "grouped",
        "indent",
        "join",
        "length",
        "lower",
        "trim",
        "truncate",
        "upper",
    }
