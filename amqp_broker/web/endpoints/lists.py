"""What all lists of objects have in common, and all single objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.errors import kind_not_found, object_not_found
from amqp_broker.web.listing import MAX_PAGE_SIZE, Wanted, answer_list, answer_page, cut, read_columns, read_query
from amqp_broker.web.objects import Objects
from amqp_broker.web.shapes import Shape, View, read_view

Row = JsonObject
#: Kinds of which the totals of the node and its virtual hosts say how many there are.
_COUNTED = ("queues", "exchanges")


def show_objects(asked: Asked, shape: Shape, keep: Callable[[Row], bool] | None = None) -> Answer:
    """The list of a kind: of the virtual host that is named, or of all."""
    wanted, view = read_query(asked.query), read_view(asked.query)
    if keep is None and (page := _first_page(asked, shape, wanted, view)) is not None:
        return page
    found = read_objects(asked, shape.kind)
    rows = found.rows if keep is None else [row for row in found.rows if keep(row)]
    readings = asked.services.readings
    value = answer_list(rows, wanted, lambda row: shape.finish(row, found.at, readings, view))
    return Answer(value=value, headers=stale_headers(found))


def _first_page(asked: Asked, shape: Shape, wanted: Wanted, view: View) -> Answer | None:
    """Of very many objects the node is asked for those alone that are shown: where they are among the first, in the
    order that it has them in, and where somebody counts them all. None: not this time."""
    needed = (wanted.page or 0) * wanted.page_size
    is_in_order = wanted.sort is None or (wanted.sort == ("name",) and asked.vhost is not None)
    is_plain = is_in_order and not wanted.is_reversed and wanted.matches is None
    if not 0 < needed <= MAX_PAGE_SIZE or not is_plain or shape.kind not in _COUNTED:
        return None
    if asked.vhost is not None:
        total = asked.verb("object", kind="vhosts", name=asked.vhost)["object"][shape.kind]
        where: JsonObject = {"vhost": asked.vhost}
    elif asked.has(Access.MONITORING):
        total, where = asked.services.totals.read()[shape.kind], {}
    else:
        return None
    answer = asked.verb("objects.page", kind=shape.kind, limit=needed, **where)
    rows = [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]
    total = len(rows) if answer["next"] is None else max(total, len(rows))
    at, readings = answer["at"], asked.services.readings
    shown = rows[needed - wanted.page_size :]
    return Answer(
        value=answer_page(shown, total, total, wanted, lambda row: shape.finish(row, at, readings, view))
    )


def show_rows(asked: Asked, rows: Iterable[Row], *names: str) -> Answer:
    """A list of what has no statistics. names: dotted paths of what a filter looks at, where rows have no name."""
    found = tuple(tuple(each.split(".")) for each in names or ("name",))
    return Answer(value=answer_list(rows, read_query(asked.query), names=found))


def read_objects(asked: Asked, kind: str) -> Objects:
    """The rows of a kind, of the virtual host that is named, or of all."""
    return asked.objects(kind, asked.vhost)


def _as_it_is(row: Row) -> Row:
    return row


def show_object(asked: Asked, shape: Shape, add: Callable[[Row], Row] = _as_it_is, **ident: JsonValue) -> Answer:
    """One object, with what lists leave out. add: what else is made of what is shown."""
    view = read_view(asked.query)
    answer = asked.verb("object", kind=shape.kind, **ident)
    shown = shape.finish(answer["object"], answer["at"], asked.services.readings, view, is_alone=True)
    return Answer(value=cut(add(shown), read_columns(asked.query)))


def find_row(asked: Asked, kind: str, vhost: str | None = None, **fields: str) -> Row:
    """The row that has these values. Raises ApiError."""
    for row in asked.objects(kind, vhost).rows:
        if all(row.get(name) == value for name, value in fields.items()):
            return row
    raise object_not_found()


def is_there(asked: Asked, kind: str, **ident: JsonValue) -> bool:
    """Whether there is such an object. Raises ApiError where not even its virtual host is."""
    try:
        asked.verb("object", kind=kind, **ident)
    except SystemRequestError as error:
        if error.code != "not_found":
            raise
        if error.kind == "vhost" and kind != "vhosts":
            raise kind_not_found("vhost") from None
        return False
    return True


def require_vhost(asked: Asked, name: str) -> None:
    """Raises ApiError where it is not there."""
    if not is_there(asked, "vhosts", name=name):
        raise object_not_found()


def stale_headers(found: Objects) -> dict[str, str]:
    """Which members of the cluster did not answer, so that theirs is missing."""
    return {"x-stale-nodes": ", ".join(found.stale)} if found.stale else {}
