"""The boundary contract as a program: every clause of ``dayfly.boundaries.base`` run against an implementation.

``CLAUSES`` are async functions that take a ``Subject`` and raise ``AssertionError``; run each as a test of its own, with
a new subject, or all of them with ``check_boundary``. The agent is a stand-in (``echo_agent``) that does as it is told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from dayfly.testing import boundary_clauses as cell
from dayfly.testing import boundary_host_clauses as host
from dayfly.testing import boundary_snapshot_clauses as snapshot
from dayfly.testing.boundary_subject import MakeSpec, Subject

__all__ = ["CLAUSES", "Clause", "MakeSpec", "Subject", "check_boundary"]

Clause = Callable[[Subject], Awaitable[None]]
Maker = Callable[[], AbstractAsyncContextManager[Subject]]


async def check_boundary(maker: Maker) -> None:
    """Run every clause, each with a subject of its own. Raises ``AssertionError`` that names the clause."""
    for clause in CLAUSES:
        async with maker() as subject:
            try:
                await clause(subject)
            except AssertionError as error:
                raise AssertionError(f"{clause.__name__}: {error}") from error


CLAUSES: tuple[Clause, ...] = (
    cell.stream_carries_megabytes_both_ways_exactly,
    cell.write_joins_its_buffers,
    cell.read_gives_at_least_one_byte_and_at_most_the_limit,
    cell.a_writer_that_nobody_reads_waits_without_holding_the_loop,
    cell.the_agent_sees_end_of_file_when_the_stream_is_closed,
    cell.after_the_end_reading_gives_what_was_left_and_then_end_of_file,
    cell.writing_after_the_end_raises_a_broken_pipe,
    cell.a_cancelled_read_loses_nothing,
    cell.close_lets_the_agent_leave_by_itself,
    cell.close_kills_an_agent_that_does_not_leave,
    cell.kill_is_idempotent_and_the_first_reason_wins,
    cell.a_cancelled_kill_can_be_finished_by_another,
    cell.cancelling_a_wait_does_not_end_the_cell,
    cell.an_agent_that_ends_by_itself_has_crashed_and_its_last_words_are_told,
    cell.a_flood_of_last_words_neither_blocks_nor_grows,
    cell.a_boundary_that_is_killed_from_outside_is_lost,
    cell.kill_leaves_nothing_of_a_cell_with_many_processes,
    cell.a_loop_that_ends_with_an_open_cell_leaves_nothing,
    cell.what_cannot_be_opened_is_refused_and_leaves_nothing,
    cell.a_cancelled_open_leaves_nothing_at_whatever_moment,
    cell.many_cells_open_and_end_at_once,
    cell.usage_is_sane_while_it_runs_and_after,
    cell.every_limit_is_reported_as_the_guarantees_say,
    cell.what_was_generated_can_be_explained,
    cell.nothing_of_the_hosts_environment_is_inside_or_explained,
    cell.the_probe_answers_in_time_and_leaves_nothing,
    snapshot.a_snapshot_continues_elsewhere_with_all_that_it_had,
    snapshot.restores_of_one_snapshot_are_separate_cells,
    snapshot.a_snapshot_taken_under_other_conditions_is_refused_and_they_are_named,
    snapshot.a_snapshot_that_fails_leaves_no_directory_and_a_running_cell,
    snapshot.a_cancelled_snapshot_leaves_no_directory_and_a_running_cell,
    snapshot.a_frozen_cell_can_be_snapshot,
    snapshot.a_damaged_image_ends_in_no_running_cell,
    host.cells_die_with_a_host_process_that_is_killed,
    host.sweep_clears_what_dead_processes_left_and_spares_the_living,
    host.a_forked_child_neither_holds_nor_ends_its_parents_cells,
)
