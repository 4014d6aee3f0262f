"""The texts of alerts: what a message says in a mail, in Slack and to a webhook, by templates of ours or a tenant's.

    message.Message ──facts──> dictionaries, lists, texts, numbers ──templates──> parts ──frames──> message.Rendered

`facts` cleans and cuts whatever came from outside, once. `language` is the part of Jinja's language in which
templates are written, ours and a tenant's alike. `rendering` puts the parts together, and falls back to the built-in
template where a tenant's cannot be used. Nothing here waits, reads a clock or knows a database but `store` and what
stands upon it.
"""

from everwhen.alerts.texts.checking import check_override, preview, source_of
from everwhen.alerts.texts.parts import Overrides, Part
from everwhen.alerts.texts.payload import thin
from everwhen.alerts.texts.rendering import render
from everwhen.alerts.texts.samples import sample

__all__ = ["Overrides", "Part", "check_override", "preview", "render", "sample", "source_of", "thin"]
