"""Numbered contracts that every log must pass.

    @pytest.mark.parametrize("contract", contracts(persistent=True), ids=lambda c: c.__name__)
    def test_my_log_keeps(contract, tmp_path):
        asyncio.run(contract(lambda: MyLog(tmp_path / "log")))

A contract gets a function that opens the log of one store, which is empty at first. A persistent
store is opened again after closing, or twice at the same time. A contract raises `Broken` if it is
not kept. Knows nothing about the implementation of a log.

An opener that can be pickled (`functools.partial(MyLog, path)`) is also raced by two processes, not
only by two threads. An opener that is a `Medium` has its power cut.

Payloads: text may hold any Unicode scalar value, including NUL, and be megabytes long. A log may
keep values that JSON does not have (a lone surrogate, an integer beyond 64 bits, an object, a NaN),
or refuse the whole batch with `LogError`. A NaN may come back as None, a tuple or a set as a list.
"""

from typing import Final

from taofold.testing.log_conformance import durability, leases, records
from taofold.testing.log_conformance.checks import Broken, Contract, Opener
from taofold.testing.log_conformance.durability import Medium

__all__ = ["Broken", "Contract", "Medium", "Opener", "contracts"]

_FOR_ALL: Final[tuple[Contract, ...]] = (
    records.c01_records_come_back_as_written_and_in_order,
    records.c02_read_starts_after_and_stops_at_a_limit,
    records.c03_a_sequence_number_that_is_not_the_next_is_a_conflict,
    records.c04_who_was_overtaken_gets_a_conflict,
    records.c05_one_of_many_owners_wins_each_record,
    records.c06_a_refused_append_leaves_nothing_behind,
    records.c07_an_id_is_taken_once,
    records.c08_a_session_has_one_run_at_a_time,
    records.c09_a_signal_is_taken_once_and_consumed_with_its_events,
    records.c10_if_quiet_writes_nothing_while_messages_wait,
    records.c11_blobs_come_back_and_may_be_written_twice,
    records.c12_rows_show_what_was_written,
    records.c13_rows_are_filtered_and_newest_first,
    records.c14_an_unknown_run_is_said_to_be_unknown,
    records.c15_a_deleted_run_is_gone,
    records.c16_a_blob_stays_while_a_run_speaks_of_it,
    records.c17_any_text_and_json_value_comes_back,
    records.c18_megabytes_come_back,
    records.c19_what_json_cannot_say_is_kept_or_refused_as_a_whole,
    records.c20_names_are_data,
    records.c37_appends_happen_in_the_order_of_their_calls,
    durability.c21_a_closed_log_says_so,
    leases.c24_a_run_begins_with_its_first_records_or_not_at_all,
    leases.c25_a_lease_keeps_others_out_until_it_is_over,
    leases.c26_a_status_but_running_ends_the_lease,
    leases.c27_what_is_due_is_listed_and_nothing_else,
    leases.c28_runs_are_counted_by_status,
    leases.c29_filters_and_cursors_find_every_run_once,
    leases.c30_one_log_has_one_identity,
    leases.c31_what_became_of_a_write_can_be_found_out,
    leases.c32_a_message_is_never_lost_to_a_run_that_parks,
    leases.c33_nothing_of_an_old_owner_arrives_behind_a_claim,
    leases.c34_of_two_runs_that_begin_at_once_in_a_session_one_does,
    leases.c35_of_two_who_claim_a_run_at_once_one_has_it,
)
_FOR_PERSISTENT: Final[tuple[Contract, ...]] = (
    durability.c22_everything_survives_closing_and_opening,
    durability.c23_two_openers_see_one_log,
    durability.c36_what_was_asked_to_be_on_disk_survives_a_power_cut,
)


def contracts(*, persistent: bool) -> tuple[Contract, ...]:
    """Returns the contracts for a log; a `persistent` one must also outlive its closing."""
    return _FOR_ALL + _FOR_PERSISTENT if persistent else _FOR_ALL
