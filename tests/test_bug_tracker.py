"""The fixture: the post's fields and options, and bugs that repeat exactly."""

import json
import unittest
from typing import Any

import bug_tracker
from arguments import ToolError
from bug_tracker import CHANNEL, FIELDS, NOW, new_bug, new_bugs, tracker, values_read
from record_store import RecordStore

# The post, "Come dovrebbe essere un rifiuto?", without its line breaks.
PUBLISHED_REFUSAL = (
    '{"error": "validation_failed", "fields": ['
    '{"key": "status", "message": "values.status must be one of the option values, got \\"In progress\\"", '
    '"allowed": ["new", "triaged", "in_progress", "fixed", "wont_fix"]}, '
    '{"key": "owner", "message": "values.owner must be one of the option values, got \\"Aiko\\"", '
    '"allowed": ["aiko", "mika", "ren"]}, '
    '{"key": "points", "message": "values.points must be between 0 and 13, got 20", "min": 0, "max": 13}, '
    '{"key": "due", "message": "values.due must be a date as YYYY-MM-DD, got \\"Friday\\""}, '
    '{"key": "age_days", "message": "values.age_days is a formula field and is computed, not written"}]}'
)


class TrackerCase(unittest.TestCase):
    def tracker(self, *arguments: Any) -> RecordStore:
        store = tracker(*arguments)
        self.addCleanup(store.close)
        return store


class TheSchema(TrackerCase):
    def test_it_has_the_eleven_fields_of_the_post_in_its_order(self) -> None:
        keys = "ticket title description status owner severity points area due reporter age_days"
        self.assertEqual([field["key"] for field in FIELDS], keys.split())

    def test_the_published_refusal_comes_out_byte_for_byte(self) -> None:
        store = self.tracker(1, 1, "values")
        ((item_id, _),) = new_bugs(1, 1)
        values = {"status": "In progress", "owner": "Aiko", "points": 20, "due": "Friday", "age_days": 3}
        with self.assertRaises(ToolError) as refused:
            store.call(
                "edit_record_item",
                {
                    "record_channel_id": CHANNEL,
                    "item_id": item_id,
                    "values": values,
                    "expected_version": 1,
                    "idempotency_key": "k",
                },
            )
        self.assertEqual(json.dumps(refused.exception.payload, ensure_ascii=False), PUBLISHED_REFUSAL)


class TheBugs(unittest.TestCase):
    def test_a_bug_depends_on_seed_and_number_only(self) -> None:
        self.assertEqual(new_bugs(3, 20)[6], new_bug(3, 7))
        self.assertNotEqual(new_bug(3, 7), new_bug(4, 7))

    def test_ids_and_tickets_are_unique_and_ids_are_uuids(self) -> None:
        bugs = new_bugs(1, 600)
        self.assertEqual(len({item_id for item_id, _ in bugs}), 600)
        self.assertEqual(len({values["ticket"] for _, values in bugs}), 600)
        self.assertEqual({len(item_id) for item_id, _ in bugs}, {36})

    def test_descriptions_have_300_to_4000_characters(self) -> None:
        lengths = [len(values["description"]) for _, values in new_bugs(1, 600)]
        self.assertTrue(300 <= min(lengths) < 400 and 3_900 < max(lengths) <= 4_000, (min(lengths), max(lengths)))

    def test_every_text_is_found_among_many_bugs(self) -> None:
        titles = " ".join(values["title"] for _, values in new_bugs(1, 600))
        for text in (*bug_tracker.PLACES, *bug_tracker.CONTROLS):
            self.assertIn(text, titles)


class ATracker(TrackerCase):
    def test_it_holds_the_bugs_as_they_were_opened(self) -> None:
        store, bugs = self.tracker(1, 30), new_bugs(1, 30)
        for item_id, values in values_read(bugs).items():
            item = store.call("read_record_item", {"record_channel_id": CHANNEL, "item_id": item_id})
            self.assertEqual((item["values"], item["version"]), (values, 1))
        self.assertEqual(values_read(bugs)[bugs[0][0]]["age_days"], 4)  # 29 * 3 h before 09:00
        self.assertEqual(values_read(bugs)[bugs[-1][0]]["age_days"], 0)

    def test_the_last_bug_was_opened_now(self) -> None:
        page = self.tracker(1, 3).call("list_record_items", {"record_channel_id": CHANNEL})
        created = [item["created_at"] for item in page["items"]]
        self.assertEqual([time[:16] for time in created], ["2026-11-09T09:00", "2026-11-09T06:00", "2026-11-09T03:00"])
        self.assertEqual(bug_tracker.Clock(NOW, 1.0)(), NOW + 1)

    def test_two_trackers_share_nothing(self) -> None:
        first, second = self.tracker(1, 3), self.tracker(1, 3)
        item_id = new_bugs(1, 3)[0][0]
        first.delete_item(CHANNEL, item_id)
        self.assertEqual(len(first.call("list_record_items", {"record_channel_id": CHANNEL})["items"]), 2)
        self.assertEqual(len(second.call("list_record_items", {"record_channel_id": CHANNEL})["items"]), 3)

    def test_a_store_of_ones_own_can_be_filled(self) -> None:
        store = RecordStore()
        self.addCleanup(store.close)
        bug_tracker.fill(store, new_bugs(1, 5))
        self.assertEqual(len(store.call("list_record_items", {"record_channel_id": CHANNEL})["items"]), 5)
        store.check()


if __name__ == "__main__":
    unittest.main()
