"""Which generation a table is: by its object id, and by the UUID that it bears where the server has a place for one."""

from __future__ import annotations

from dpone_dagster.campaign.receipts import PublicationReceipt
from dpone_dagster.ports.tables import Tables, TargetTable


def generation_of(live: TargetTable, head: PublicationReceipt | None, tables: Tables) -> str | None:
    """The live table's generation, to be recorded at prepare; None if it is nobody's.

    Args:
        live: The table.
        head: The latest receipt of the target.
        tables: Of the target.
    """
    if tables.marks_generations:
        return live.generation
    if head is None or head.live_object_id != live.object_id:
        return None
    return head.generation


def is_generation(table: TargetTable, object_id: int, generation: str | None, tables: Tables) -> bool:
    """Whether a table is the object, and the generation, that was recorded.

    An object id that the server gave out again does not pass where tables bear marks; and where the mark was copied,
    the object id does not.

    Args:
        table: As it is now.
        object_id: As recorded.
        generation: As recorded; None for nobody's.
        tables: Of the target.
    """
    return table.object_id == object_id and (not tables.marks_generations or table.generation == generation)
