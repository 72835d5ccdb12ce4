"""What must hold in a database of record channels, and how a check finds where it does not.

Glossary
    invariant   (what must hold, a query whose rows are the violations)
    claim       a row of record_unique: (channel, key, canonical JSON, item): the item has this value of a unique field

Three things take Python to tell, since SQL does not know what fits a field: `broken_items` yields a sentence for each
violation.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Callable, Iterator, List, Optional, Tuple

from arguments import JSON
from field_schema import Schema
from field_types import is_empty, unique_form

INVARIANTS: List[Tuple[str, str]] = [
    (
        "an item's version is that of its last event, and it is deleted if that event alone says so",
        """SELECT item.record_channel_id, item.item_id, item.version, last.version, last.type
           FROM record_item AS item LEFT JOIN (
               SELECT resource_id, subject_id, version, type, sum(type = 'deleted') AS deletions, max(sequence)
               FROM event WHERE resource_type = 'record_channel' GROUP BY resource_id, subject_id) AS last
           ON last.resource_id = item.record_channel_id AND last.subject_id = item.item_id
           WHERE last.version IS NOT item.version OR last.deletions <> item.deleted
               OR (last.type = 'deleted') IS NOT item.deleted""",
    ),
    (
        "every event is of an item that is there, deleted or not",
        """SELECT resource_id, sequence, subject_id FROM event
           WHERE resource_type = 'record_channel' AND NOT EXISTS (
               SELECT 1 FROM record_item WHERE record_channel_id = resource_id AND item_id = subject_id)""",
    ),
    (
        "an item's events begin with created and have versions 1, 2, 3, …",
        """SELECT resource_id, subject_id, version, type FROM (
               SELECT resource_id, subject_id, version, type,
                   row_number() OVER (PARTITION BY resource_id, subject_id ORDER BY sequence) AS place
               FROM event WHERE resource_type = 'record_channel')
           WHERE version IS NOT place OR (type = 'created') <> (place = 1)""",
    ),
    (
        "an item's times are date-times, and it was not updated before it was created",
        """SELECT record_channel_id, item_id, created_at, updated_at FROM record_item
           WHERE length(created_at) <> 27 OR length(updated_at) <> 27 OR updated_at < created_at""",
    ),
    (
        "positions follow the order of creation",
        """SELECT record_channel_id, item_id, position FROM (
               SELECT record_channel_id, item_id, position,
                   lag(position) OVER (PARTITION BY record_channel_id ORDER BY sequence) AS position_before
               FROM event JOIN record_item ON record_channel_id = resource_id AND item_id = subject_id
               WHERE resource_type = 'record_channel' AND type = 'created')
           WHERE position <= position_before""",
    ),
    (
        "every recorded edit's result is its event; one that changed nothing names an item",
        """SELECT resource_id, key
           FROM idempotency_key LEFT JOIN event USING (resource_type, resource_id, sequence)
           WHERE resource_type = 'record_channel' AND (
               NOT json_valid(result) OR json_extract(result, '$.replayed') IS NOT 0
               OR json_extract(result, '$.record_channel_id') IS NOT resource_id
               OR sequence IS NOT NULL AND (
                   json_extract(result, '$.item_id') IS NOT subject_id
                   OR json_extract(result, '$.version') IS NOT version)
               OR sequence IS NULL AND NOT EXISTS (
                   SELECT 1 FROM record_item WHERE record_channel_id = resource_id
                   AND item_id = json_extract(result, '$.item_id')))""",
    ),
]


def broken_items(db: sqlite3.Connection, schema_of: Callable[[str, int], Schema]) -> Iterator[str]:
    """Values that do not fit the schema they were checked against, wrong previews, wrong claims to unique values.

    A relation's item is not looked for: it may have been deleted since.
    """
    claims = set(db.execute("SELECT record_channel_id, key, value, item_id FROM record_unique"))
    saved = set(db.execute("SELECT record_channel_id, schema_version FROM record_schema"))
    rows = db.execute(
        """SELECT record_channel_id, item_id, item_values, item.schema_version, earlier_schemas, preview,
               channel.schema_version
           FROM record_item AS item JOIN record_channel AS channel USING (record_channel_id) WHERE NOT deleted"""
    )
    for channel_id, item_id, text, checked_by, earlier_text, preview, current in rows:
        values, earlier = json_object(text), json_object(earlier_text)
        if values is None:
            yield f"{item_id} in {channel_id}: values are not a JSON object"
            continue
        if earlier is None or not all(type(v) is int and (channel_id, v) in saved for v in earlier.values()):
            yield f"{item_id} in {channel_id}: the earlier schemas of its values are not versions that there were"
            continue
        for schema_version in dict.fromkeys((checked_by, *earlier.values())):
            part = {key: value for key, value in values.items() if earlier.get(key, checked_by) == schema_version}
            for key, problem in schema_of(channel_id, schema_version).problems(part).items():
                yield f"{item_id} in {channel_id}: values.{key} {problem} (schema version {schema_version})"
        schema = schema_of(channel_id, current)
        if preview != schema.preview(values):
            yield f"{item_id} in {channel_id}: the preview is not that of its values"
        for key in schema.unique.keys() & values.keys():
            claim = (channel_id, key, unique_form(schema.unique[key], values[key]), item_id)
            if not is_empty(values[key]) and claim not in claims:
                yield f"{item_id} in {channel_id}: its claim to the unique values.{key} is missing"
            claims.discard(claim)
    for channel_id, key, _, item_id in claims:
        yield f"{item_id} in {channel_id}: claims a unique values.{key} that it does not have"


def json_object(text: str) -> Optional[JSON]:
    """None for anything else, NaN anywhere in it included."""
    try:
        value = STRICT.decode(text)
    except (TypeError, ValueError, RecursionError):
        return None
    return value if type(value) is dict else None


def refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


STRICT = json.JSONDecoder(parse_constant=refuse)
